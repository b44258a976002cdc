import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { serializeIdx } from '../src/formats/idx.ts';
import { createHost } from '../src/plugin-host/builtins.ts';
import { loadRecipe } from '../src/recipe/load.ts';
import { runRecipe } from '../src/train/run.ts';
import { openTestEngine } from './engine-setup.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const work = mkdtempSync(join(tmpdir(), 'alambic-recipes-'));

/** All shipped recipes: those of the repository and of the worked plugins. */
const recipes = ['recipes', 'plugins']
  .flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) => join(root, folder, file)),
  )
  .filter((file) => file.endsWith('.yaml') && !file.includes('node_modules'));

/** Data for the recipes that read the user's own files: small, of the right form. */
const settings: Record<string, string[]> = {
  'recipes/fashion-mnist/kd.yaml': [`data.source.folder=${join(work, 'fashion')}`],
  'recipes/image-folder/kd.yaml': [`data.source.folder=${join(work, 'pictures')}`],
};

beforeAll(async () => {
  await openTestEngine();
  mkdirSync(join(work, 'fashion'), { recursive: true });
  for (const [prefix, items] of [
    ['train', 600],
    ['t10k', 100],
  ] as const) {
    const pixels = Uint8Array.from({ length: items * 28 * 28 }, (_, i) => (i * 31) % 256);
    const labels = Uint8Array.from({ length: items }, (_, i) => i % 10);
    writeFileSync(
      join(work, 'fashion', `${prefix}-images-idx3-ubyte`),
      serializeIdx({ type: 'uint8', shape: [items, 28, 28], data: pixels }),
    );
    writeFileSync(
      join(work, 'fashion', `${prefix}-labels-idx1-ubyte`),
      serializeIdx({ type: 'uint8', shape: [items], data: labels }),
    );
  }
  for (const [c, name] of ['cat', 'dog', 'horse'].entries()) {
    const folder = join(work, 'pictures', name);
    mkdirSync(folder, { recursive: true });
    for (let i = 0; i < 40; i++) {
      const background = { r: 80 * c, g: 5 * i, b: 120 };
      await sharp({ create: { width: 120 + i, height: 110, channels: 3, background } })
        .jpeg()
        .toFile(join(folder, `${i}.jpg`));
    }
  }
}, 120_000);

afterAll(() => rmSync(work, { recursive: true, force: true }));

describe('every shipped recipe runs two updates of each stage', () => {
  it.each(recipes.map((file) => [relative(root, file).replaceAll('\\', '/'), file]))('%s', async (name, file) => {
    const loaded = await loadRecipe(file, { set: settings[name] ?? [] }, createHost());
    const folder = join(work, 'runs', name.replace(/\W+/g, '-'));
    const { summary, interrupted } = await runRecipe(loaded, { folder, limitUpdates: 2 });
    expect(interrupted).toBe(false);
    expect(summary.stages.map(({ stage }) => stage)).toEqual(loaded.recipe.stages.map(({ name: stage }) => stage));
    for (const stage of summary.stages) {
      expect(stage.updates).toBe(2);
      expect(Object.values(stage.history[0]!).every(Number.isFinite)).toBe(true);
      expect(existsSync(join(folder, stage.modelFolder, 'model.safetensors'))).toBe(true);
    }
  });
});
