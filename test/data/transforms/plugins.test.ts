import { readFileSync } from 'node:fs';
import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { TRANSFORM_PLUGINS } from '../../../src/data/builtins.ts';
import { drawBoxes } from '../../../src/data/transforms/random-resized-crop.ts';
import { capture } from '../../../src/engine/capture.ts';
import { engine } from '../../../src/engine/engine.ts';
import { makeKey } from '../../../src/engine/random.ts';
import type { Transform } from '../../../src/plugin-host/contract.ts';
import { openTestEngine } from '../../engine-setup.ts';

const OPTIONS: Record<string, readonly object[]> = {
  affine: [{}, { degrees: 30, shear: 10, fill: 0.5 }],
  'center-crop': [{ size: 6 }, { size: [12, 4] }],
  'colour-jitter': [
    { brightness: 0.4, contrast: 0.4, saturation: [0.5, 2], hue: 0.2 },
    { brightness: 0.4, p: 0.5 },
  ],
  flip: [{}, { direction: 'vertical', p: 0.9 }],
  greyscale: [{ p: 0.5 }],
  normalise: [{ mean: [0.5, 0.4, 0.3], std: [0.2] }],
  'random-crop': [{}, { size: [6, 5], padding: 2, border: 'reflect' }, { border: 'edge' }],
  'random-resized-crop': [{}, { size: [6, 12], interpolation: 'bicubic', scale: [0.3, 1] }],
  resize: [{ size: [5, 12] }],
};
const COUNT = 6;
const SHAPE = [9, 8, 3] as const;

function make(name: string, options: object): Transform {
  const plugin = TRANSFORM_PLUGINS.find((other) => other.name === name)!;
  return new plugin.implementation(plugin.options.parse(options));
}
const pictures = () =>
  tf.tensor4d(
    Float32Array.from({ length: COUNT * 216 }, (_, i) => ((i * 7919) % 256) / 255),
    [COUNT, ...SHAPE],
  );
const cases = Object.entries(OPTIONS).flatMap(([name, all]) => all.map((options) => [name, options] as const));

describe('transform plugins', () => {
  beforeAll(openTestEngine);

  it('are all tested here, and each has a description and described options', () => {
    expect(TRANSFORM_PLUGINS.map(({ name }) => name)).toEqual(Object.keys(OPTIONS));
    for (const { description, options, kind } of TRANSFORM_PLUGINS) {
      expect(kind).toBe('transform');
      expect(description).toMatch(/\.$/);
      for (const option of Object.values(options.shape))
        expect((option as { description?: string }).description).toBeTruthy();
    }
  });

  it.each(cases)(
    '%s %j: has the shape it says, the same numbers in every mode, and leaks nothing',
    async (name, options) => {
      const transform = make(name, options);
      const shape = [COUNT, ...transform.outputShape(SHAPE)];
      const images = pictures();
      for (const training of [true, false]) {
        const results: Float32Array[] = [];
        for (const mode of ['eager', 'graph', 'xla'] as const) {
          const run = capture(
            `${name}-${training}`,
            (x: Tensor, step: Tensor) => transform.call(x, { key: makeKey(3, name, step), training }),
            { mode },
          );
          const steps = [0, 1, 0].map((step) => tf.scalar(step, 'int32'));
          const outs: Tensor[] = [];
          for (const step of steps) outs.push(await run(images, step));
          for (const out of outs) expect(out.shape).toEqual(shape);
          const [first, second, again] = (await Promise.all(outs.map((out) => out.data()))) as [
            Float32Array,
            Float32Array,
            Float32Array,
          ];
          expect(again).toEqual(first);
          const random = training && !['center-crop', 'normalise', 'resize'].includes(name);
          expect(Buffer.from(second.buffer).equals(Buffer.from(first.buffer))).toBe(!random);
          results.push(first);
          const before = engine().tensorCount();
          tf.dispose(await run(images, steps[0]!));
          expect(engine().tensorCount()).toBe(before);
          tf.dispose([steps, outs]);
        }
        for (const other of results.slice(1)) {
          const worst = Math.max(...results[0]!.map((value, i) => Math.abs(value - other[i]!)));
          // XLA reorders float32 sums and has its own sine and exponential.
          expect(worst).toBeLessThan(2e-5);
        }
        if (!training && ['affine', 'colour-jitter', 'flip', 'greyscale'].includes(name)) {
          expect(results[0]).toEqual(await images.data());
        }
      }
      images.dispose();
    },
  );

  it('draw for each image by itself', async () => {
    const picture = tf.slice(pictures(), [0, 0, 0, 0], [1, -1, -1, -1]);
    const same = tf.tile(picture, [64, 1, 1, 1]);
    for (const [name, least] of [
      ['flip', 2],
      ['random-crop', 30],
      ['random-resized-crop', 30],
      ['affine', 60],
    ] as const) {
      const out = await make(name, {})
        .call(same, { key: makeKey(1, name), training: true })
        .data();
      const size = out.length / 64;
      const different = new Set(Array.from({ length: 64 }, (_, n) => out.slice(n * size, (n + 1) * size).join()));
      expect(different.size).toBeGreaterThanOrEqual(least);
    }
  });

  it('random-crop takes every place equally often', async () => {
    const transform = make('random-crop', { padding: 1 });
    const marked = tf.pad(tf.ones([9000, 1, 1, 1]), [
      [0, 0],
      [1, 1],
      [1, 1],
      [0, 0],
    ]);
    const out = (await transform.call(marked, { key: makeKey(5, 'crop'), training: true }).data()) as Float32Array;
    const counts = new Array<number>(9).fill(0);
    for (const [i, value] of out.entries()) counts[i % 9]! += value;
    expect(counts.reduce((a, b) => a + b)).toBe(9000);
    const chiSquare = counts.reduce((sum, n) => sum + (n - 1000) ** 2 / 1000, 0);
    expect(chiSquare).toBeLessThan(26.1); // 99.9 % quantile at 8 degrees of freedom
  });

  it('random-resized-crop draws boxes as torchvision does', async () => {
    const boxes = drawBoxes(makeKey(2, 'boxes'), 20_000, [224, 300], { scale: [0.08, 1], ratio: [3 / 4, 4 / 3] });
    const [top, left, height, width] = (await Promise.all(
      [boxes.top, boxes.left, boxes.height, boxes.width].map((x) => x.data()),
    )) as [Float32Array, Float32Array, Float32Array, Float32Array];
    const area = height.map((side, n) => (side * width[n]!) / (224 * 300));
    for (let n = 0; n < 20_000; n++) {
      const box = [top[n]!, left[n]!, height[n]!, width[n]!];
      expect(box.every((value) => Number.isInteger(value) && value >= 0)).toBe(true);
      expect(top[n]! + height[n]!).toBeLessThanOrEqual(224);
      expect(left[n]! + width[n]!).toBeLessThanOrEqual(300);
    }
    const url = new URL('../../fixtures/data/transforms.json', import.meta.url);
    const { boxes: theirs } = JSON.parse(readFileSync(url, 'utf8')) as { boxes: Record<string, [number, number]> };
    for (const [name, values] of Object.entries({ top, left, height, width, area })) {
      const [mean, deviation] = theirs[name]!;
      const ours = values.reduce((sum, value) => sum + value, 0) / 20_000;
      // Five standard errors of our 20,000 and their 100,000 draws.
      expect(Math.abs(ours - mean), name).toBeLessThan(5 * deviation * Math.sqrt(1 / 20_000 + 1 / 100_000));
    }
  });

  it('random-resized-crop falls back to the centre where no box fits', async () => {
    // Ten times as wide as high: no box of ratio 1 has half of the area.
    const boxes = drawBoxes(makeKey(2, 'boxes'), 3, [10, 100], { scale: [0.5, 1], ratio: [1, 1] });
    const values = await Promise.all(
      [boxes.top, boxes.left, boxes.height, boxes.width].map(async (x) => [...(await x.data())]),
    );
    expect(values).toEqual([
      [0, 0, 0],
      [45, 45, 45],
      [10, 10, 10],
      [10, 10, 10],
    ]);
  });

  it('refuse what does not fit', () => {
    const precondition = expect.objectContaining({ code: 'PRECONDITION' });
    expect(() => make('random-crop', { size: 40 }).outputShape(SHAPE)).toThrow(precondition);
    expect(() => make('random-crop', { padding: 8, border: 'reflect' }).outputShape(SHAPE)).toThrow(precondition);
    expect(() => make('normalise', { mean: [0, 0], std: [1] }).outputShape(SHAPE)).toThrow(precondition);
    expect(() => make('colour-jitter', {}).outputShape([8, 8, 4])).toThrow(precondition);
    expect(() => make('flip', {}).outputShape([8, 8])).toThrow(precondition);
    expect(() => make('flip', { p: 2 })).toThrow();
    expect(() => make('flip', { probability: 0.2 })).toThrow();
  });
});
