import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadPlugin } from '../../src/plugin-host/discovery.ts';
import { errorFacts, rejectionOf } from './error-facts.ts';

const REPOSITORY = fileURLToPath(new URL('../../', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'alambic-discovery-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** A plugin as an author writes it: a TypeScript file with decorators, in a folder that no tsconfig.json knows. */
const plugin = (name: string, body = '') => `
import { AlambicError, definePlugin, inject, injectable, type Loss, TOKEN, tf, z } from 'alambic/plugin';

enum Sign { Plus = 1 }

@injectable()
class Custom implements Loss {
  constructor(@inject(TOKEN.Options) private readonly options: { readonly factor: number }) {}

  call(): never {
    throw new AlambicError('MINE', String(this.options.factor * Sign.Plus));
  }
}
${body}
export default definePlugin({
  name: '${name}', kind: 'loss', apiVersion: 1, options: z.strictObject({ factor: z.number().default(3) }), implementation: Custom,
});
`;

const FILES: Readonly<Record<string, string>> = {
  'losses/decorated.ts': plugin('decorated'),
  'losses/with-part.ts': plugin('with-part', "import { part } from './part.ts';\nexport const kept = part;"),
  'losses/part.ts': 'export const part: number = 4;',
  'losses/several.ts': `${plugin('one').replace('export default', 'const one =')}\nexport default [one, { ...one, name: 'two' }];`,
  'losses/named.ts': 'export const loss = 1;',
  'losses/broken.ts': 'export default {\n  name: "x",,\n};',
  'losses/throws.ts': 'const a: number = 1;\n\nthrow new Error(String(a));',
  'losses/lost.ts': "import 'no-such-package';\nexport default 1;",
  'losses/lost-part.ts': "import './no-such-part.ts';\nexport default 1;",
  'losses/no-plugin.ts': 'export default { name: "x" };',
  'folder/index.ts': plugin('by-index'),
  'packaged/package.json':
    '{ "name": "packaged", "exports": { ".": { "types": "./x.d.ts", "import": "./src/main.ts" } } }',
  'packaged/src/main.ts': plugin('by-manifest'),
  'empty/readme.txt': '',
  'node_modules/some-losses/package.json':
    '{ "name": "some-losses", "type": "module", "exports": { ".": "./main.ts", "./extra": { "default": "./extra.ts" } } }',
  'node_modules/some-losses/main.ts': plugin('from-package'),
  'node_modules/some-losses/extra.ts': plugin('from-part'),
  'node_modules/@scope/losses/package.json': '{ "name": "@scope/losses", "main": "main.mjs" }',
  'node_modules/@scope/losses/main.mjs': "export { default } from '../../some-losses/main.ts';",
};

const SCRIPT = `
const [repository, base, ...specs] = process.argv.slice(2);
const load = (path) => import(new URL(path, repository).href);
const { loadPlugin } = await load('src/plugin-host/discovery.ts');
const { PluginHost } = await load('src/plugin-host/host.ts');
const { AlambicError } = await load('src/errors.ts');
const results = {};
for (const spec of specs) {
  try {
    const loaded = await loadPlugin(spec, base);
    const host = new PluginHost();
    for (const { plugin, origin } of loaded) host.register(plugin, origin);
    let thrown;
    try { host.instantiate('loss', loaded[0].plugin.name, { factor: 5 }).call({}); } catch (error) { thrown = error; }
    results[spec] = { names: loaded.map(({ plugin }) => plugin.name), same: thrown instanceof AlambicError, code: thrown.code, message: thrown.message, stack: thrown.stack };
  } catch (error) {
    results[spec] = { code: error.code, message: error.message, hint: error.hint, at: error.at, plugin: error.plugin };
  }
}
process.stdout.write(JSON.stringify(results));
`;

/** What a fresh process outside of the repository makes of plugins: no test runner in between. */
async function loadOutside(specs: readonly string[]): Promise<Record<string, Record<string, unknown>>> {
  const script = join(folder, 'script.mjs');
  writeFileSync(script, SCRIPT);
  const tsx = pathToFileURL(join(REPOSITORY, 'node_modules/tsx/dist/loader.mjs')).href;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--import', tsx, script, pathToFileURL(REPOSITORY).href, folder, ...specs],
    { cwd: folder, env: { ...process.env, TSX_TSCONFIG_PATH: join(REPOSITORY, 'tsconfig.json') } },
  );
  return JSON.parse(stdout) as Record<string, Record<string, unknown>>;
}

describe('loadPlugin in a folder of its own', () => {
  const good = {
    './losses/decorated.ts': ['decorated'],
    './losses/with-part.ts': ['with-part'],
    './losses/several.ts': ['one', 'two'],
    './folder': ['by-index'],
    './packaged/': ['by-manifest'],
    'some-losses': ['from-package'],
    'some-losses/extra': ['from-part'],
    '@scope/losses': ['from-package'],
    [`file://${folder}/losses/decorated.ts`]: ['decorated'],
  };
  const bad = [
    './losses/broken.ts',
    './losses/throws.ts',
    './losses/lost.ts',
    './losses/lost-part.ts',
    './losses/named.ts',
    './losses/no-plugin.ts',
  ];
  let results: Record<string, Record<string, unknown>>;

  beforeAll(async () => {
    for (const [file, text] of Object.entries(FILES)) {
      mkdirSync(dirname(join(folder, file)), { recursive: true });
      writeFileSync(join(folder, file), text);
    }
    results = await loadOutside([...Object.keys(good), ...bad]);
  });

  it.each(Object.entries(good))('loads %s, with the one running copy of alambic', (spec, names) => {
    expect(results[spec]).toMatchObject({ names, same: true, code: 'MINE', message: '5' });
  });

  it('keeps the lines of the source in stack traces', () => {
    // The throw stands in line 11 of the text above.
    expect(results['./losses/decorated.ts']!['stack']).toMatch(/losses\/decorated\.ts(\?alambic-plugin)?:11:11/);
  });

  it('says where a plugin cannot be compiled or run', () => {
    const at = (file: string) => join(folder, 'losses', file);
    const hint = 'Correct it there; a plugin needs no build step.';
    const failed = (name: string, text: string) => `expected the plugin ./losses/${name} to load, it failed: ${text}`;
    expect(results['./losses/broken.ts']).toEqual({
      code: 'PLUGIN_IMPORT',
      message: failed('broken.ts', 'Expected identifier but found ","'),
      hint,
      at: `${at('broken.ts')}:2:12`,
      plugin: './losses/broken.ts',
    });
    expect(results['./losses/throws.ts']).toEqual({
      code: 'PLUGIN_IMPORT',
      message: failed('throws.ts', '1'),
      hint,
      at: `${at('throws.ts')}:3:7`,
      plugin: './losses/throws.ts',
    });
    expect(results['./losses/lost.ts']).toMatchObject({
      code: 'PLUGIN_IMPORT',
      hint: 'Install it beside the plugin: `npm i no-such-package`.',
      at: at('lost.ts'),
    });
    expect(results['./losses/lost-part.ts']).toMatchObject({
      code: 'PLUGIN_IMPORT',
      hint: 'Imports of files carry their ending: `./file.ts`.',
      at: at('lost-part.ts'),
    });
    expect(results['./losses/named.ts']).toEqual({
      code: 'PLUGIN_NOT_DEFAULT',
      message: 'expected a default export in ./losses/named.ts, found only loss',
      hint: 'Write `export default definePlugin({ … })`, or an array of them.',
      at: at('named.ts'),
    });
    expect(results['./losses/no-plugin.ts']).toMatchObject({
      code: 'PLUGIN_KIND',
      message: 'expected a kind of plugin, got nothing',
      at: at('no-plugin.ts'),
      plugin: 'x',
    });
  });
});

describe('loadPlugin', () => {
  const factsOf = async (spec: string) => errorFacts(await rejectionOf(loadPlugin(spec, folder)));

  it('says what is not there, with the nearest file name', async () => {
    expect(await factsOf('./losses/decoratd.ts')).toEqual({
      code: 'PLUGIN_NOT_FOUND',
      message: 'no plugin at ./losses/decoratd.ts: did you mean "./losses/decorated.ts"?',
      hint: `Tried ${join(folder, 'losses/decoratd.ts')}.`,
    });
    expect(await factsOf('./nowhere/x.ts')).toEqual({
      code: 'PLUGIN_NOT_FOUND',
      message: 'no plugin at ./nowhere/x.ts',
      hint: `Tried ${join(folder, 'nowhere/x.ts')}; the folder ${join(folder, 'nowhere')} does not exist.`,
    });
    expect(await factsOf('./empty')).toEqual({
      code: 'PLUGIN_NOT_FOUND',
      message: 'no plugin in the folder ./empty',
      hint: `Tried index.ts, index.mts, index.js, index.mjs in ${join(folder, 'empty')}.`,
    });
  });

  it('says that a package is not installed, or that a path was meant', async () => {
    const missing = await factsOf('no-losses');
    expect(missing).toMatchObject({ code: 'PLUGIN_NOT_FOUND', message: 'no package "no-losses" is installed' });
    expect(missing['hint']).toContain(`Run \`npm i no-losses\` in ${folder}.`);
    expect(await factsOf('losses/decorated.ts')).toEqual({
      code: 'PLUGIN_NOT_FOUND',
      message: 'no package "losses/decorated.ts" is installed: did you mean "./losses/decorated.ts"?',
      hint: 'A path begins with ./',
    });
    expect(await factsOf('some-losses/none')).toMatchObject({
      code: 'PLUGIN_NOT_FOUND',
      message: 'no plugin in the folder some-losses/none',
    });
  });
});
