import { instantiatePlugin, openEngine, tf } from 'alambic/plugin';
import { beforeAll, describe, expect, it } from 'vitest';
import plugin from './optimizer.ts';

beforeAll(async () => {
  await openEngine({ device: 'cpu' });
});

describe('my-optimizer', () => {
  it('steps by the rate along the sign, with decay for kernels only', () => {
    const optimizer = instantiatePlugin(plugin, { rate: 0.5, momentum: 0.5, decay: 0.5 });
    const step = (role: 'kernel' | 'bias') =>
      tf.tidy(() => {
        const value = tf.tensor1d([4, 4]);
        const context = { rate: tf.scalar(optimizer.baseRate), role, decay: true };
        const next = optimizer.update('w', value, tf.tensor1d([3, -2]), optimizer.init('w', value), context);
        return [[...next.value.dataSync()], [...next.slots['velocity']!.dataSync()]];
      });
    expect(step('bias')).toEqual([
      [3.5, 4.5],
      [1.5, -1],
    ]);
    expect(step('kernel')).toEqual([
      [2.5, 3.5],
      [1.5, -1],
    ]);
  });
});
