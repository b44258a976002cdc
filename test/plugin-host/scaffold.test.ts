import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import { formatPluginList, listPlugins, scaffoldPlugin } from '../../src/cli/commands/plugin.ts';
import { createHost } from '../../src/plugin-host/builtins.ts';
import { PLUGIN_KINDS } from '../../src/plugin-host/contract.ts';
import { loadPlugin } from '../../src/plugin-host/discovery.ts';
import { thrownBy } from './error-facts.ts';

const REPOSITORY = fileURLToPath(new URL('../../', import.meta.url));
// Inside of plugins/, where a user makes them, so that the repository's own test settings find the generated tests.
const folder = join(REPOSITORY, 'plugins', `.scaffold-${process.pid}`);
mkdirSync(folder);
afterAll(() => rmSync(folder, { recursive: true }));

describe('scaffoldPlugin', () => {
  it.each(PLUGIN_KINDS)('makes a %s that loads and can be used', async (kind) => {
    const name = `own-${kind}`;
    const made = scaffoldPlugin(name, kind, folder);
    expect(made).toEqual({
      folder: join(folder, name),
      files: [`${name}.ts`, `${name}.test.ts`, 'README.md', 'package.json', 'tsconfig.json'],
    });
    for (const file of made.files) {
      // No name of the template is left.
      expect(readFileSync(join(made.folder, file), 'utf8')).not.toMatch(new RegExp(`my-${kind}|My[A-Z]`));
    }
    const host = createHost();
    const [loaded] = await loadPlugin(`./${name}`, folder);
    host.register(loaded!.plugin, loaded!.origin);
    expect([loaded!.plugin.name, loaded!.plugin.kind]).toEqual([name, kind]);
    const options = kind === 'optimizer' ? { rate: 0.1 } : {};
    expect(host.instantiate(kind, name, options)).toBeTypeOf('object');
    expect(readFileSync(join(made.folder, 'README.md'), 'utf8')).toContain(`plugins: [./${name}/${name}.ts]`);
  });

  it('makes tests that pass as they are, for every kind', async () => {
    const arguments_ = ['vitest', 'run', '--reporter=json', join('plugins', `.scaffold-${process.pid}`)];
    const { stdout } = await promisify(execFile)('npx', arguments_, {
      cwd: REPOSITORY,
      env: { ...process.env, FORCE_COLOR: '0' },
    });
    const report = JSON.parse(stdout.slice(stdout.indexOf('{'))) as Record<string, unknown>;
    expect(report).toMatchObject({ success: true, numFailedTests: 0, numTotalTestSuites: expect.any(Number) });
    expect((report['testResults'] as unknown[]).length).toBe(PLUGIN_KINDS.length);
  });

  it('refuses bad names, unknown kinds and folders that exist, and then writes nothing', () => {
    expect(thrownBy(() => scaffoldPlugin('My Loss', 'loss', folder))).toEqual({
      code: 'PLUGIN_NAME',
      message: 'expected a name such as "my-loss", got "My Loss"',
      hint: 'Lower-case letters, digits and single dashes or underscores, a letter first.',
    });
    expect(thrownBy(() => scaffoldPlugin('../evil', 'loss', folder)).code).toBe('PLUGIN_NAME');
    expect(thrownBy(() => scaffoldPlugin('new-one', 'los', folder))).toMatchObject({
      code: 'PLUGIN_KIND',
      message: 'unknown kind of plugin "los": did you mean "loss"?',
    });
    expect(existsSync(join(folder, 'new-one'))).toBe(false);
    scaffoldPlugin('new-one', 'loss', folder);
    expect(thrownBy(() => scaffoldPlugin('new-one', 'loss', folder))).toEqual({
      code: 'PLUGIN_FOLDER',
      message: `expected a new folder, but ${join(folder, 'new-one')} exists`,
      hint: 'Choose another name, or another place by --folder.',
    });
  });
});

describe('the list of plugins', () => {
  it('shows kinds, plugins and options with type, default and meaning', () => {
    const text = formatPluginList(createHost(), 'loss');
    expect(text).toMatch(/^loss\n/);
    expect(text).toContain(
      [
        '  cross-entropy  Cross-entropy of logits with labels, with label smoothing.',
        '      labelSmoothing  number >= 0 and < 1; default 0; share of the target that is spread over all classes (arXiv 1512.00567)',
      ].join('\n'),
    );
    expect(text).not.toContain('optimizer');
    expect(thrownBy(() => formatPluginList(createHost(), 'lss'))).toMatchObject({ code: 'PLUGIN_KIND' });
    expect(formatPluginList(createHost(), 'exporter')).toBe('No plugins of kind exporter.');
  });

  it('is data too', () => {
    const sgd = listPlugins(createHost(), 'optimizer').find(({ name }) => name === 'sgd');
    expect(sgd).toMatchObject({ kind: 'optimizer', origin: 'built in' });
    expect(sgd!.options[0]).toEqual({
      name: 'rate',
      type: 'number > 0',
      required: true,
      default: undefined,
      description: 'learning rate that schedule and groups multiply',
    });
    expect(sgd!.options.find(({ name }) => name === 'momentum')).toMatchObject({
      type: 'number >= 0 and < 1',
      required: false,
      default: 0.9,
    });
  });
});
