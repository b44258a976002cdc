import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { createHost } from '../../src/plugin-host/builtins.ts';
import type { PluginKind } from '../../src/plugin-host/contract.ts';
import { describeOptions } from '../../src/plugin-host/describe-options.ts';

const host = createHost();
const all = host.list();

/** Options for the plugins that have no defaults for all of them. */
const REQUIRED: Readonly<Record<string, object>> = {
  'image-folder': { folder: 'images' },
  idx: { folder: 'mnist' },
  'center-crop': { size: 8 },
  normalise: { mean: [0.5], std: [0.5] },
  resize: { size: [8, 8] },
  adamw: { rate: 0.1 },
  sgd: { rate: 0.1 },
  'multi-step': { milestones: [2] },
};

describe('built-in plugins', () => {
  it('are of these kinds', () => {
    const kinds = new Set(all.map(({ plugin }) => plugin.kind));
    const expected: PluginKind[] = [
      'model',
      'source',
      'transform',
      'loss',
      'strategy',
      'optimizer',
      'schedule',
      'metric',
      'logger',
    ];
    expect([...kinds].sort()).toEqual(expect.arrayContaining([...expected].sort()));
  });

  it.each(all.map(({ plugin }) => [plugin.kind, plugin.name] as const))(
    '%s %s: is built, takes its own parsed options, is described',
    (kind, name) => {
      const parsed = host.parseOptions(kind, name, REQUIRED[name] ?? {});
      expect(host.parseOptions(kind, name, parsed)).toEqual(parsed);
      // Every constructor parameter carries @inject, and the contract's methods are there.
      expect(host.instantiate(kind, name, parsed)).toBeTypeOf('object');
      const plugin = host.get(kind, name);
      expect(plugin.description).toMatch(/\S/);
      for (const option of describeOptions(plugin)) expect(option.description, option.name).toMatch(/\S/);
    },
  );

  it('load without TensorFlow', async () => {
    const script = `
      const { createHost } = await import('./src/plugin-host/builtins.ts');
      const { readFileSync } = await import('node:fs');
      const count = createHost().list().length;
      process.stdout.write(JSON.stringify({ count, loaded: /libtensorflow/.test(readFileSync('/proc/self/maps', 'utf8')) }));`;
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--import', 'tsx', '--input-type=module', '-e', script],
      {
        cwd: fileURLToPath(new URL('../../', import.meta.url)),
      },
    );
    expect(JSON.parse(stdout)).toEqual({ count: all.length, loaded: false });
  });
});
