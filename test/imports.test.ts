import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const src = fileURLToPath(new URL('../src', import.meta.url));

/** From the ground up; a file imports only from its own layer or from layers before it (docs/architecture.md). */
const LAYERS = [
  ['errors.ts', 'tree.ts', 'process-identity.ts'],
  ['formats'],
  ['engine'],
  // The plugin contract: every plugin, built in or not, imports it.
  ['plugin-host/contract.ts', 'plugin-host/define.ts', 'plugin-host/tokens.ts', 'plugin-host/use.ts'],
  ['nn'],
  ['losses', 'metrics', 'optim'],
  ['data'],
  ['strategies'],
  ['loggers', 'callbacks'],
  ['plugin-host'],
  ['recipe'],
  ['train'],
  ['report'],
  ['cli', 'index.ts', 'plugin.ts', 'setup.mjs'],
];

/** Files of types alone, which the contract's own types name. */
const TYPES = ['nn/module.ts', 'data/source.ts', 'plugin-host/contract.ts'];

function layerOf(path: string): number {
  const exact = LAYERS.findIndex((layer) => layer.includes(path));
  return exact >= 0 ? exact : LAYERS.findIndex((layer) => layer.includes(path.split('/')[0]!));
}

it('imports point one way', () => {
  const wrong: string[] = [];
  for (const entry of readdirSync(src, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !/\.m?[tj]s$/.test(entry.name)) continue;
    const path = join(entry.parentPath, entry.name);
    const from = relative(src, path);
    for (const [, clause, specifier] of readFileSync(path, 'utf8').matchAll(
      /^(?:import|export)\s([^'";]*?)from '(\.[^']+)'/gm,
    )) {
      const to = relative(src, resolve(dirname(path), specifier!));
      if (to.startsWith('..') || (clause!.startsWith('type ') && TYPES.includes(to))) continue;
      if (layerOf(to) > layerOf(from)) wrong.push(`${from} imports ${to}`);
    }
  }
  expect(wrong).toEqual([]);
});
