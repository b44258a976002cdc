import { fileURLToPath } from 'node:url';
import { createHost } from '../../src/plugin-host/builtins.ts';
import { type LoadedRecipe, parseRecipe } from '../../src/recipe/load.ts';

/** Two stages, the second distils from the first; everything that must be restored is on. */
export const RECIPE = `
name: stripes
seed: 1
plugins: [./stripes-plugin.ts]
data:
  source: stripes
  input: [8, 8, 1]
  splits: { train: 0.6, dev: 0.2, test: 0.2 }
  augment: [{ use: random-crop, padding: 1 }]
models:
  teacher: { use: cnn, widths: [6, 8], dropRate: 0.1 }
  student: { use: cnn, widths: [4, 4] }
stages:
  - name: teach
    model: teacher
    strategies: [supervised]
    optimizer: { use: adamw, rate: 0.01 }
    schedule: { use: cosine, warmup: 1 }
    ema: { decay: 0.9 }
    epochs: 6
    batch: 16
  - name: distil
    model: student
    teachers: { teacher: teacher }
    strategies: [supervised, { use: distillation, temperature: 2 }]
    data: { labelled: 12 }
    optimizer: { use: sgd, rate: 0.05 }
    clip: { norm: 1 }
    accumulate: 2
    epochs: 6
    batch: 8
run: { keep: { last: 2, best: 1 }, saveEvery: 2 }
engine: { device: cpu }
`;

/** Folder of the test's plugins, from which the recipe's paths start. */
export const FOLDER = fileURLToPath(new URL('.', import.meta.url));

export function loadText(text = RECIPE): Promise<LoadedRecipe> {
  return parseRecipe(text, FOLDER, createHost());
}
