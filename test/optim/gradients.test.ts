import { readFileSync } from 'node:fs';
import * as tf from '@tensorflow/tfjs-core';
import fc from 'fast-check';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { capture, trace } from '../../src/engine/capture.ts';
import { runPasses } from '../../src/engine/program/passes.ts';
import type { Tensors } from '../../src/nn/module.ts';
import { accumulate, emptyAccumulator } from '../../src/optim/accumulate.ts';
import { clipByGlobalNorm, clipByValue, globalNorm } from '../../src/optim/clip.ts';
import { allFinite } from '../../src/optim/finite.ts';
import { openTestEngine } from '../engine-setup.ts';

interface ClipCase {
  readonly maxNorm: number;
  readonly norm: number;
  readonly before: Readonly<Record<string, number[]>>;
  readonly after: Readonly<Record<string, number[]>>;
}

const CLIP = JSON.parse(readFileSync('test/fixtures/optim/clip.json', 'utf8')) as ClipCase[];
const MODES = ['eager', 'graph', 'xla'] as const;

const tensorsOf = (values: Readonly<Record<string, readonly number[]>>): Tensors =>
  Object.fromEntries(Object.entries(values).map(([name, list]) => [name, tf.tensor1d([...list])]));
const closeTo = (actual: ArrayLike<number>, expected: readonly number[], tolerance: number) => {
  const scale = Math.max(1e-30, ...expected.map(Math.abs));
  expected.forEach((x, i) => {
    expect(Math.abs(actual[i]! - x) / scale).toBeLessThan(tolerance);
  });
};

describe('gradients', () => {
  beforeAll(openTestEngine);
  let before = 0;
  beforeEach(() => {
    before = tf.memory().numTensors;
  });
  afterEach(() => {
    expect(tf.memory().numTensors).toBe(before);
  });

  describe('clipByGlobalNorm', () => {
    // 1e-6: sums of squares in float32 in another order.
    it.each(CLIP.map((c) => [c.maxNorm, c.norm, c] as const))(
      'to %d at norm %d equals torch',
      async (maxNorm, norm, c) => {
        const gradients = tensorsOf(c.before);
        for (const mode of MODES) {
          const clip = capture('clip', (g: Tensors) => clipByGlobalNorm(g, maxNorm), { mode });
          const result = await clip(gradients);
          closeTo(await result.norm.data(), [norm], 1e-6);
          for (const [name, expected] of Object.entries(c.after))
            closeTo(await result.gradients[name]!.data(), expected, 1e-6);
          tf.dispose([result.norm, result.gradients]);
          clip.dispose();
        }
        tf.dispose(gradients);
      },
    );

    it('gives the norm alone, with the very gradients, where nothing is limited', async () => {
      const gradients = tensorsOf({ a: [3], b: [0, 4] });
      const { gradients: same, norm } = clipByGlobalNorm(gradients, Number.POSITIVE_INFINITY);
      expect(same['a']).toBe(gradients['a']);
      expect((await norm.data())[0]).toBeCloseTo(5, 6);
      const none = globalNorm({});
      expect((await none.data())[0]).toBe(0);
      tf.dispose([gradients, norm, none]);
    });

    it('never leaves a norm above the limit, nor changes a direction', async () => {
      const number = fc.float({ min: -1e6, max: 1e6, noNaN: true });
      await fc.assert(
        fc.asyncProperty(
          fc.array(number, { minLength: 2, maxLength: 9 }),
          fc.double({ min: 1e-3, max: 1e3, noNaN: true }),
          async (values, limit) => {
            const gradients = tensorsOf({ a: values.slice(1), b: values.slice(0, 1) });
            const { gradients: clipped, norm } = clipByGlobalNorm(gradients, limit);
            const after = [...(await clipped['b']!.data()), ...(await clipped['a']!.data())];
            const exact = Math.hypot(...values);
            expect(Math.hypot(...after)).toBeLessThanOrEqual(Math.min(exact, limit) * (1 + 1e-5) + 1e-30);
            const factor = Math.min(1, limit / (exact + 1e-6));
            closeTo(
              after,
              values.map((x) => x * factor),
              1e-5,
            );
            tf.dispose([gradients, clipped, norm]);
          },
        ),
        { numRuns: 50 },
      );
    });
  });

  it('clipByValue limits each element', async () => {
    const gradients = tensorsOf({ a: [-3, -0.5, 0, 0.5, 3] });
    const clipped = clipByValue(gradients, 1);
    expect([...(await clipped['a']!.data())]).toEqual([-1, -0.5, 0, 0.5, 1]);
    tf.dispose([gradients, clipped]);
  });

  describe('allFinite', () => {
    it.each(MODES)('finds a single bad element anywhere, %s', async (mode) => {
      const check = capture('finite', (g: Tensors) => tf.cast(allFinite(g), 'float32'), { mode });
      const of = async (values: Readonly<Record<string, readonly number[]>>) => {
        const gradients = tensorsOf(values);
        const flag = await check(gradients);
        const [value] = await flag.data();
        tf.dispose([gradients, flag]);
        return value;
      };
      const good = { a: [1, -1e15, 0], b: [1e-38, 2, 3] };
      expect(await of(good)).toBe(1);
      for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
        for (const name of ['a', 'b'] as const) {
          for (let i = 0; i < 3; i++) expect(await of({ ...good, [name]: good[name].with(i, bad) })).toBe(0);
        }
        expect(await of({ a: [Number.POSITIVE_INFINITY, 0, Number.NEGATIVE_INFINITY], b: good.b })).toBe(0);
      }
      check.dispose();
    });

    it('costs nothing beside the global norm', () => {
      const count = (withCheck: boolean) => {
        const { program } = trace('norm', [{ shape: [3, 4] }, { shape: [4] }], (a, b) => {
          const gradients = { a: a!, b: b! };
          const { norm } = clipByGlobalNorm(gradients, Number.POSITIVE_INFINITY);
          return withCheck ? [norm, allFinite(gradients)] : [norm];
        });
        return runPasses(program).ops.length;
      };
      expect(count(true) - count(false)).toBe(1);
    });
  });

  it('accumulates unequal batches to the gradient of the mean over all items', async () => {
    const data = [[1, 2, 3, 4], [5], [-3, 7]];
    const items = data.flat().length;
    const w = tf.scalar(0.3);
    const gradientOf = (values: readonly number[]) =>
      tf.tidy(() => tf.grad((x) => tf.div(tf.sum(tf.square(tf.sub(tf.tensor1d([...values]), x))), items))(w));
    const empty = emptyAccumulator({ w });
    let sums: Tensors = empty;
    for (const values of data) {
      const gradient = gradientOf(values);
      const next = accumulate(sums, { w: gradient });
      tf.dispose([sums, gradient]);
      sums = next;
    }
    const whole = gradientOf(data.flat());
    expect((await sums['w']!.data())[0]).toBeCloseTo((await whole.data())[0]!, 5);
    const started = accumulate({}, { v: whole });
    expect(started['v']).toBe(whole);
    expect(accumulate(sums, {})['w']).toBe(sums['w']);
    tf.dispose([w, sums, whole]);
  });
});
