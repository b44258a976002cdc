import { instantiatePlugin, openEngine, type StepView, tf } from 'alambic/plugin';
import { beforeAll, describe, expect, it } from 'vitest';
import plugin from './strategy.ts';

beforeAll(async () => {
  await openEngine({ device: 'cpu' });
});

describe('my-strategy', () => {
  it('is lowest for equal classes and zero for a certain one', () => {
    const strategy = instantiatePlugin(plugin, { weight: 2 });
    const [unsure, sure] = tf.tidy(() => {
      const step = {
        student: {
          output: tf.tensor2d([
            [0, 0],
            [50, -50],
          ]),
        },
      } as unknown as StepView;
      const { confidence } = strategy.terms!(step);
      expect(confidence!.weight).toBe(2);
      return [...confidence!.loss.dataSync()];
    });
    expect(unsure).toBeCloseTo(-Math.LN2, 6);
    expect(sure).toBeCloseTo(0, 6);
  });
});
