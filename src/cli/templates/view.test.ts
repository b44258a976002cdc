import { instantiatePlugin, makeKey, openEngine, tf } from 'alambic/plugin';
import { beforeAll, describe, expect, it } from 'vitest';
import plugin from './view.ts';

beforeAll(async () => {
  await openEngine({ device: 'cpu' });
});

describe('my-view', () => {
  it('leaves the first view as it is and adds noise to the others', () => {
    const view = instantiatePlugin(plugin, { views: 3, noise: 0.2 });
    expect(view.views).toBe(3);
    expect(view.transforms(0)).toEqual([]);
    const deviation = (index: number) =>
      tf.tidy(() => {
        const [transform] = view.transforms(index);
        const noisy = transform!.call(tf.zeros([8, 16, 16, 1]), { key: makeKey(1, 'view'), training: true });
        return tf.moments(noisy).variance.sqrt().dataSync()[0]!;
      });
    // 2048 draws: the standard error of the deviation is 1.6 %.
    expect(deviation(1)).toBeCloseTo(0.1, 1.7);
    expect(deviation(2) / deviation(1)).toBeCloseTo(2, 1);
  });
});
