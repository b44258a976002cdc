import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  bernoulli,
  dropout,
  randomInt,
  randomNormal,
  randomUniform,
  truncatedNormal,
  valueAndGradients,
} from '../../../src/engine/kernels/index.ts';
import { deriveKey, makeKey } from '../../../src/engine/random.ts';
import { openTestEngine } from '../../engine-setup.ts';
import { inAllModes, valuesOf } from '../modes.ts';

beforeAll(openTestEngine);

const COUNT = 40_000;
const step = () => tf.scalar(7, 'int32');

function moments(values: ArrayLike<number>) {
  const list = Array.from(values);
  const mean = list.reduce((sum, x) => sum + x, 0) / list.length;
  const variance = list.reduce((sum, x) => sum + (x - mean) ** 2, 0) / list.length;
  return { mean, std: Math.sqrt(variance) };
}

describe('random numbers from keys', () => {
  // Bits and whole numbers are equal in all modes; functions of them (log, cos, erfinv) differ in the last places.
  const draws = {
    uniform: {
      fn: (s: tf.Tensor) => randomUniform(makeKey(3, 'u', s), [COUNT], -1, 3),
      mean: 1,
      std: 4 / Math.sqrt(12),
    },
    normal: { fn: (s: tf.Tensor) => randomNormal(makeKey(3, 'n', s), [COUNT], 2, 0.5), mean: 2, std: 0.5 },
    // Standard deviation of a normal cut at two: sqrt(1 - 4 φ(2) / (2 Φ(2) - 1)).
    truncated: { fn: (s: tf.Tensor) => truncatedNormal(makeKey(3, 't', s), [COUNT]), mean: 0, std: 0.8796 },
    int: { fn: (s: tf.Tensor) => randomInt(makeKey(3, 'i', s), [COUNT], -2, 4), mean: 0.5, std: Math.sqrt(35 / 12) },
    bernoulli: { fn: (s: tf.Tensor) => bernoulli(makeKey(3, 'b', s), [COUNT], 0.3), mean: 0.3, std: Math.sqrt(0.21) },
  };
  for (const [name, { fn, mean, std }] of Object.entries(draws)) {
    it(`${name}: the same in all modes, with the right mean and deviation`, async () => {
      const exact = name === 'int' || name === 'bernoulli' || name === 'uniform';
      const { y } = await inAllModes(({ s }) => ({ y: fn(s!) }), { s: step() }, exact ? 0 : 2e-5);
      const found = moments(y.values);
      // Five standard errors.
      expect(Math.abs(found.mean - mean)).toBeLessThan((5 * std) / Math.sqrt(COUNT));
      expect(Math.abs(found.std / std - 1)).toBeLessThan(5 / Math.sqrt(2 * COUNT) + 0.01);
    });
  }

  it('keeps ranges: [low, high), whole numbers below high, two deviations', () => {
    const of = (tensor: tf.Tensor) => Array.from(tensor.dataSync());
    const key = makeKey(5, 'range');
    const uniform = of(randomUniform(key, [COUNT]));
    expect(Math.min(...uniform)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...uniform)).toBeLessThan(1);
    expect([...new Set(of(randomInt(key, [COUNT], 5, 8)))].sort()).toEqual([5, 6, 7]);
    expect(Math.max(...of(truncatedNormal(key, [COUNT])).map(Math.abs))).toBeLessThanOrEqual(2.0001);
    expect(of(randomNormal(key, [COUNT])).every(Number.isFinite)).toBe(true);
  });

  it('depends on seed, path and step, and on nothing else', () => {
    const of = (seed: number, path: string, at: number | tf.Tensor) =>
      Array.from(randomUniform(makeKey(seed, path, at), [8]).dataSync());
    expect(of(1, 'a', 4)).toEqual(of(1, 'a', 4));
    expect(of(1, 'a', tf.scalar(4, 'int32'))).toEqual(of(1, 'a', 4));
    const others = [of(2, 'a', 4), of(1, 'b', 4), of(1, 'a', 5), of(1, 'a/b', 4)];
    for (const other of others) expect(other).not.toEqual(of(1, 'a', 4));
    expect(deriveKey(makeKey(1, 'a', 4), 'b')).toEqual(makeKey(1, 'a/b', 4));
  });

  it('draws two thousand steps without overlap', () => {
    const seen = new Set<number>();
    for (let at = 0; at < 50; at++) for (const bits of randomInt(makeKey(1, 'o', at), [100], 0, 2 ** 31 - 1).dataSync()) seen.add(bits); // biome-ignore format: one loop
    // Birthday bound: 5,000 draws of 2^31 collide less than once in a hundred runs; the key is fixed.
    expect(seen.size).toBe(5000);
  });

  it('refuses an empty range and a float step', () => {
    expect(() => randomInt(makeKey(1, 'a'), [2], 3, 3)).toThrow(expect.objectContaining({ code: 'RANDOM_RANGE' }));
    expect(() => randomUniform(makeKey(1, 'a', tf.scalar(1)), [2])).toThrow(
      expect.objectContaining({ code: 'RANDOM_STEP' }),
    );
  });
});

describe('dropout', () => {
  it('zeroes a share, scales the rest, and gives the gradient the same mask, in all modes', async () => {
    const x = tf.ones([200, 50]);
    const { y, gradient } = await inAllModes(
      ({ x, s }) => {
        const result = valueAndGradients(
          () => {
            const dropped = dropout(x!, 0.25, makeKey(9, 'drop', s!));
            return { loss: tf.sum(dropped), aux: { dropped } };
          },
          { x: x! },
        );
        result.loss.dispose();
        return { y: result.aux.dropped, gradient: result.gradients['x']! };
      },
      { x, s: step() },
      0,
    );
    expect(Array.from(gradient.values)).toEqual(Array.from(y.values));
    const kept = y.values.filter((value) => value !== 0);
    expect(kept.every((value) => value === Math.fround(1 / 0.75))).toBe(true);
    expect(Math.abs(kept.length / y.values.length - 0.75)).toBeLessThan(5 * Math.sqrt((0.75 * 0.25) / 10_000));
  });

  it('passes x through at rate 0 and refuses rates outside of [0,1)', () => {
    const x = tf.ones([3]);
    expect(valuesOf(dropout(x, 0, makeKey(1, 'd')))).toEqual(valuesOf(x));
    for (const rate of [1, -0.1, Number.NaN])
      expect(() => dropout(x, rate, makeKey(1, 'd'))).toThrow(expect.objectContaining({ code: 'KERNEL_OPTION' }));
  });
});
