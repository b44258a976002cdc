import { instantiatePlugin, openEngine, tf } from 'alambic/plugin';
import { beforeAll, describe, expect, it } from 'vitest';
import plugin from './teachers.ts';

beforeAll(async () => {
  await openEngine({ device: 'cpu' });
});

describe('my-teachers', () => {
  it('weighs the teachers', () => {
    const combined = (options: object) =>
      tf.tidy(() => {
        const outputs = [tf.tensor2d([[4, 0]]), tf.tensor2d([[0, 8]])];
        return [
          ...instantiatePlugin(plugin, options)
            .combine(outputs, tf.tensor1d([0], 'int32'))
            .dataSync(),
        ];
      });
    expect(combined({})).toEqual([2, 4]);
    expect(combined({ weights: [3, 1] })).toEqual([3, 2]);
    expect(() => combined({ weights: [1] })).toThrowError('expected 2 weights, one for each teacher, got [1]');
  });
});
