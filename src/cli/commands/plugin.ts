import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { AlambicError, unknownName } from '../../errors.ts';
import { isPluginKind, isPluginName } from '../../plugin-host/check-plugin.ts';
import { PLUGIN_KINDS, type PluginKind } from '../../plugin-host/contract.ts';
import { describeOptions, type OptionRow } from '../../plugin-host/describe-options.ts';
import type { PluginHost } from '../../plugin-host/host.ts';

const TEMPLATES = new URL('../templates/', import.meta.url);
const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url));

/** Where a use of each kind stands in a recipe; a kind without a place of its own is taken by strategies that ask for it. */
const RECIPE_LINES: Readonly<Partial<Record<PluginKind, string>>> = {
  model: 'models:\n  student: NAME',
  source: 'data:\n  source: NAME',
  transform: 'data:\n  augment: [NAME]',
  loss: 'stages:\n  - strategies: [supervised, { use: distillation, loss: NAME }]',
  strategy: 'stages:\n  - strategies: [supervised, NAME]',
  optimizer: 'stages:\n  - optimizer: { use: NAME, rate: 0.001 }',
  schedule: 'stages:\n  - schedule: NAME',
  metric: 'run:\n  metrics: [NAME]',
  callback: 'run:\n  callbacks: [NAME]',
  logger: 'run:\n  loggers: [NAME]',
};

export interface Scaffold {
  readonly folder: string;
  /** Paths of the new files, relative to the folder. */
  readonly files: readonly string[];
}

/**
 * Makes a plugin that works: its file, a test that passes, README, package.json and tsconfig.json in `<parent>/<name>`.
 *
 * Throws `PLUGIN_NAME`, `PLUGIN_KIND`, and `PLUGIN_FOLDER` where the folder exists.
 *
 * @example
 * scaffoldPlugin('my-loss', 'loss', 'plugins');
 */
export function scaffoldPlugin(name: string, kind: string, parent: string): Scaffold {
  if (!isPluginName(name)) {
    throw new AlambicError('PLUGIN_NAME', `expected a name such as "my-loss", got "${name}"`, {
      hint: 'Lower-case letters, digits and single dashes or underscores, a letter first.',
    });
  }
  if (!isPluginKind(kind)) throw unknownName('PLUGIN_KIND', 'kind of plugin', kind, PLUGIN_KINDS);
  const folder = resolve(parent, name);
  if (existsSync(folder)) {
    throw new AlambicError('PLUGIN_FOLDER', `expected a new folder, but ${folder} exists`, {
      hint: 'Choose another name, or another place by --folder.',
    });
  }
  const contents: Readonly<Record<string, string>> = {
    [`${name}.ts`]: template(`${kind}.ts`, name, kind),
    [`${name}.test.ts`]: template(`${kind}.test.ts`, name, kind),
    'README.md': readme(name, kind),
    'package.json': manifest(name, kind),
    'tsconfig.json': compilerSettings(folder),
  };
  mkdirSync(folder, { recursive: true });
  for (const [file, text] of Object.entries(contents)) writeFileSync(join(folder, file), text);
  return { folder, files: Object.keys(contents) };
}

/** A file of the template folder with its names replaced; it is real code, checked and tested as such. */
function template(file: string, name: string, kind: PluginKind): string {
  const pascal = (text: string) => text.replace(/(^|[-_])([a-z0-9])/g, (_, __, letter: string) => letter.toUpperCase());
  return readFileSync(new URL(file, TEMPLATES), 'utf8')
    .replaceAll(`my-${kind}`, name)
    .replaceAll(`My${pascal(kind)}`, pascal(name))
    .replaceAll(`'./${kind}.ts'`, `'./${name}.ts'`);
}

function readme(name: string, kind: PluginKind): string {
  const line = RECIPE_LINES[kind]?.replace('NAME', name);
  const use =
    line === undefined
      ? `A strategy takes it as an option declared with \`useOf('${kind}')\` and makes it by \`TOKEN.Create\`; name its file in the recipe:`
      : 'Name its file in a recipe (relative to the recipe) and use it:';
  return `# ${name}

A plugin of kind \`${kind}\` for alambic. ${use}

\`\`\`yaml
plugins: [./${name}/${name}.ts]${line === undefined ? '' : `\n${line}`}
\`\`\`

\`alambic plugins --kind ${kind} --recipe RECIPE\` shows its options. Its test: \`npx vitest run ${name}\` (once:
\`npm i -D vitest\`). The contract of a plugin of kind \`${kind}\` is among the types of \`alambic/plugin\`, explained in \`docs/plugins.md\` of alambic.
`;
}

function manifest(name: string, kind: PluginKind): string {
  const content = {
    name: `alambic-plugin-${name}`,
    version: '0.1.0',
    type: 'module',
    exports: `./${name}.ts`,
    keywords: ['alambic', 'alambic-plugin', kind],
    peerDependencies: { alambic: '*' },
  };
  return `${JSON.stringify(content, null, 2)}\n`;
}

/** For editors and test runners, which know nothing of how alambic compiles plugins: decorators, and where `alambic/plugin` is. */
function compilerSettings(folder: string): string {
  const base = relative(folder, join(REPOSITORY, 'tsconfig.json')).replaceAll('\\', '/');
  const isInside = !relative(REPOSITORY, folder).startsWith('..');
  const settings = isInside
    ? { extends: base, include: ['.'] }
    : {
        compilerOptions: {
          target: 'ES2022',
          module: 'NodeNext',
          strict: true,
          experimentalDecorators: true,
          allowImportingTsExtensions: true,
          noEmit: true,
          skipLibCheck: true,
        },
        include: ['.'],
      };
  // As formatters write it, so that a new plugin passes the checks of the repository it lies in.
  return `${JSON.stringify(settings, null, 2).replace(/\[\s+"\."\s+\]/, '["."]')}\n`;
}

/** A plugin as `alambic plugins --json` shows it. */
export interface ListedPlugin {
  readonly kind: PluginKind;
  readonly name: string;
  readonly description: string;
  /** `built in`, or its file. */
  readonly origin: string;
  readonly options: readonly OptionRow[];
}

/** All plugins of a host, or those of one kind, in the order of the kinds. Throws `PLUGIN_KIND`. */
export function listPlugins(host: PluginHost, kind?: string): ListedPlugin[] {
  if (kind !== undefined && !isPluginKind(kind)) throw unknownName('PLUGIN_KIND', 'kind of plugin', kind, PLUGIN_KINDS);
  const kinds = kind === undefined ? PLUGIN_KINDS : [kind];
  return kinds.flatMap((each) =>
    host.list(each).map(({ plugin, origin }) => ({
      kind: each,
      name: plugin.name,
      description: plugin.description ?? '',
      origin,
      options: describeOptions(plugin),
    })),
  );
}

/** The same as text: kinds, plugins, and each option with type, default and meaning. */
export function formatPluginList(host: PluginHost, kind?: string): string {
  const plugins = listPlugins(host, kind);
  const lines: string[] = [];
  let heading: PluginKind | undefined;
  for (const { kind, name, description, origin, options } of plugins) {
    if (kind !== heading) lines.push(...(heading === undefined ? [] : ['']), kind);
    heading = kind;
    const place =
      origin === 'built in'
        ? ''
        : `  (${relative(process.cwd(), dirname(origin)).startsWith('..') ? origin : relative(process.cwd(), origin)})`;
    lines.push(`  ${name}${description === '' ? '' : `  ${description}`}${place}`);
    const width = Math.max(0, ...options.map((option) => option.name.length));
    for (const option of options) {
      const byDefault = option.required
        ? 'required'
        : option.default === undefined
          ? 'optional'
          : `default ${JSON.stringify(option.default)}`;
      lines.push(
        `      ${option.name.padEnd(width)}  ${option.type}; ${byDefault}${option.description === '' ? '' : `; ${option.description}`}`,
      );
    }
  }
  if (plugins.length === 0) lines.push(`No plugins${kind === undefined ? '' : ` of kind ${kind}`}.`);
  return lines.join('\n');
}
