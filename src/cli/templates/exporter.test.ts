import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { instantiatePlugin, type ModelDescription, openEngine, tf } from 'alambic/plugin';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import plugin from './exporter.ts';

beforeAll(async () => {
  await openEngine({ device: 'cpu' });
});

describe('my-exporter', () => {
  it('writes the values and where they lie', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'my-exporter-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const description = { architecture: 'tiny', inputShape: [1, 2] } as unknown as ModelDescription;
    const state = { params: { weight: tf.tensor2d([[1, 2]]) }, buffers: { mean: tf.tensor1d([3]) } };
    await instantiatePlugin(plugin).export({ description, state, labels: ['a', 'b'] }, folder);
    tf.dispose([state.params, state.buffers]);
    const bytes = await readFile(join(folder, 'model.bin'));
    expect([0, 4, 8].map((offset) => bytes.readFloatLE(offset))).toEqual([1, 2, 3]);
    expect(JSON.parse(await readFile(join(folder, 'model.json'), 'utf8'))).toEqual({
      architecture: 'tiny',
      inputShape: [1, 2],
      labels: ['a', 'b'],
      tensors: [
        { name: 'weight', shape: [1, 2], offset: 0 },
        { name: 'mean', shape: [1], offset: 8 },
      ],
    });
  });
});
