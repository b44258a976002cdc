import { instantiatePlugin, openEngine, tf } from 'alambic/plugin';
import { beforeAll, describe, expect, it } from 'vitest';
import plugin from './loss.ts';

beforeAll(async () => {
  await openEngine({ device: 'cpu' });
});

describe('my-loss', () => {
  it('is quadratic near zero and linear beyond delta', () => {
    const loss = instantiatePlugin(plugin, { delta: 2 });
    const values = tf.tidy(() => [
      ...loss.call({ student: tf.tensor2d([[1], [5]]), teacher: tf.tensor2d([[0], [0]]) }).dataSync(),
    ]);
    // 1² / 2, and 2 (5 - 2/2): whole numbers and halves are exact in float32.
    expect(values).toEqual([0.5, 8]);
  });

  it('refuses logits of different shapes', () => {
    expect(() =>
      instantiatePlugin(plugin).check?.({ student: [4, 10], teacher: [4, 5], classes: 10, batchSize: 4 }),
    ).toThrowError('expected logits of equal shape');
  });
});
