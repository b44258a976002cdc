import { instantiatePlugin, makeKey, openEngine, tf } from 'alambic/plugin';
import { beforeAll, describe, expect, it } from 'vitest';
import plugin from './transform.ts';

beforeAll(async () => {
  await openEngine({ device: 'cpu' });
});

describe('my-transform', () => {
  it('moves each image by one number of its own, the same for the same key, and only in training', () => {
    const transform = instantiatePlugin(plugin, { amount: 0.25 });
    const run = (step: number, training: boolean) =>
      tf.tidy(() => [
        ...transform.call(tf.fill([2, 1, 2, 1], 0.5), { key: makeKey(1, 'test', step), training }).dataSync(),
      ]);
    const [a, b, c, d] = run(0, true);
    expect([a, c]).toEqual([b, d]);
    expect(a).not.toBe(c);
    for (const value of [a!, c!]) expect(Math.abs(value - 0.5)).toBeLessThanOrEqual(0.25);
    expect(run(0, true)).toEqual([a, b, c, d]);
    expect(run(1, true)).not.toEqual([a, b, c, d]);
    expect(run(0, false)).toEqual([0.5, 0.5, 0.5, 0.5]);
  });
});
