import { describeModule, instantiatePlugin, openEngine } from 'alambic/plugin';
import { beforeAll, describe, expect, it } from 'vitest';
import plugin from './model.ts';

beforeAll(async () => {
  await openEngine({ device: 'cpu' });
});

describe('my-model', () => {
  it('has the parameters, taps and output it says', () => {
    const model = instantiatePlugin(plugin, { width: 8 }).build({ inputSize: [16, 16, 3], classes: 5 });
    const { outputShape, parameters, taps } = describeModule(model);
    expect(outputShape).toEqual([1, 5]);
    expect(parameters.map(({ name, shape }) => [name, ...shape])).toContainEqual(['block2.conv.weight', 3, 3, 8, 16]);
    expect(taps.find(({ name }) => name === 'features')?.shape).toEqual([1, 16]);
  });
});
