import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { capture, deviceDtype } from '../../../src/engine/capture.ts';
import {
  averagePool,
  batchNorm,
  bytesTensor,
  castFloat,
  conv2d,
  dense,
  gather,
  maxPool,
  oneHot,
  relu,
  softmaxCrossEntropy,
  sparseSoftmaxCrossEntropy,
} from '../../../src/engine/kernels/index.ts';
import { openTestEngine } from '../../engine-setup.ts';
import { inAllModes } from '../modes.ts';

beforeAll(openTestEngine);

describe('bytes on the device', () => {
  it('castFloat gives 0 to 255 of uint8 in all modes', async () => {
    const bytes = bytesTensor(Uint8Array.of(0, 1, 127, 128, 254, 255), [2, 3]);
    expect(deviceDtype(bytes)).toBe('uint8');
    const { y } = await inAllModes(({ bytes }) => ({ y: castFloat(bytes!) }), { bytes }, 0);
    expect(y).toEqual({ shape: [2, 3], values: Float32Array.of(0, 1, 127, 128, 254, 255) });
    bytes.dispose();
  });

  it('castFloat takes int32, bool and float32', async () => {
    const { a, b, c } = await inAllModes(
      ({ a, b, c }) => ({ a: castFloat(a!), b: castFloat(b!), c: tf.clone(castFloat(c!)) }),
      { a: tf.tensor1d([-3, 70_000], 'int32'), b: tf.tensor1d([true, false], 'bool'), c: tf.tensor1d([0.5]) },
      0,
    );
    expect(Array.from(a.values)).toEqual([-3, 70_000]);
    expect(Array.from(b.values)).toEqual([1, 0]);
    expect(Array.from(c.values)).toEqual([0.5]);
  });

  it('gather takes rows of bytes by index, inside a recording too', async () => {
    const images = bytesTensor(Uint8Array.of(10, 20, 30, 40, 50, 60), [3, 2]);
    const { y } = await inAllModes(
      ({ images, i }) => ({ y: castFloat(gather(images!, i!)) }),
      { images, i: tf.tensor1d([2, 0], 'int32') },
      0,
    );
    expect(Array.from(y.values)).toEqual([50, 60, 10, 20]);
    const tfjs = capture('tfjs gather', (x: tf.Tensor, i: tf.Tensor) => castFloat(tf.gather(x, i)), { mode: 'graph' });
    const z = await tfjs(images, tf.tensor1d([1], 'int32'));
    expect(Array.from(z.dataSync())).toEqual([30, 40]);
    images.dispose();
  });

  it('a batch of bytes is copied: changing the array afterwards changes nothing', () => {
    const data = Uint8Array.of(1, 2);
    const bytes = bytesTensor(data, [2]);
    data.fill(9);
    expect(Array.from(castFloat(bytes).dataSync())).toEqual([1, 2]);
  });

  it('refuses bytes that do not fill the shape', () => {
    expect(() => bytesTensor(new Uint8Array(5), [2, 3])).toThrow(expect.objectContaining({ code: 'ENGINE_VALUES' }));
  });
});

describe('oneHot', () => {
  it('gives zeros for labels outside of the classes', async () => {
    const { y } = await inAllModes(
      ({ labels }) => ({ y: oneHot(labels!, 3) }),
      { labels: tf.tensor1d([2, -1, 0, 3], 'int32') },
      0,
    );
    expect(y.shape).toEqual([4, 3]);
    expect(Array.from(y.values)).toEqual([0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
  });
});

describe('wrong inputs are told at once', () => {
  const x = () => tf.zeros([1, 4, 4, 3]);
  const channels = (n: number) => tf.ones([n]);
  const cases: Readonly<Record<string, [fn: () => unknown, code: string, words: RegExp]>> = {
    'channels of a kernel': [() => conv2d(x(), tf.zeros([3, 3, 2, 8])), 'KERNEL_SHAPE', /takes 2 channels.*has 3/],
    'rank of a map': [() => maxPool(tf.zeros([4, 4]), { size: 2 }), 'KERNEL_SHAPE', /\[N,H,W,C\], got \[4,4\]/],
    'pool size 0': [() => averagePool(x(), { size: 0 }), 'KERNEL_OPTION', /size/],
    'negative padding': [() => conv2d(x(), tf.zeros([1, 1, 3, 1]), { padding: -1 }), 'KERNEL_OPTION', /padding/],
    'half a stride': [() => conv2d(x(), tf.zeros([1, 1, 3, 1]), { stride: 0.5 }), 'KERNEL_OPTION', /stride/],
    'statistics of other channels': [
      () =>
        batchNorm(
          x(),
          { scale: channels(3), offset: channels(3), mean: channels(4), variance: channels(3) },
          { epsilon: 1e-5, batchStatistics: false },
        ),
      'KERNEL_SHAPE',
      /mean of shape \[3\], got \[4\]/,
    ],
    'features of a dense layer': [() => dense(tf.zeros([2, 3]), tf.zeros([4, 5])), 'KERNEL_SHAPE', /do not fit/],
    'float labels': [() => sparseSoftmaxCrossEntropy(tf.zeros([2, 3]), tf.zeros([2])), 'KERNEL_SHAPE', /int32 labels/],
    'distributions of other classes': [
      () => softmaxCrossEntropy(tf.zeros([2, 3]), tf.zeros([2, 4])),
      'KERNEL_SHAPE',
      /equal shapes/,
    ],
  };
  for (const [name, [fn, code, words]] of Object.entries(cases)) {
    it(name, () => {
      expect(() => tf.tidy(() => void fn())).toThrow(
        expect.objectContaining({ code, message: expect.stringMatching(words) }),
      );
    });
  }

  it('a label beyond the classes fails in eager and graph mode instead of training on nonsense', async () => {
    for (const mode of ['eager', 'graph'] as const) {
      const loss = capture('loss', sparseSoftmaxCrossEntropy, { mode });
      await expect(loss(tf.zeros([1, 3]), tf.tensor1d([3], 'int32'))).rejects.toMatchObject({
        code: 'TENSORFLOW_INVALID_ARGUMENT',
      });
    }
  });
});

describe('undefined values', () => {
  // Only maximum pooling hides them: it takes the largest number of a window in all modes (PyTorch gives NaN).
  it('in an input reach the loss in all modes', async () => {
    const x = tf.tensor2d([[Number.NaN, 1, 2], [3, 0, 1]]); // biome-ignore format: a matrix
    const { losses, y, norm } = await inAllModes(
      ({ x, labels }) => {
        const inputs = { scale: tf.ones([3]), offset: tf.zeros([3]), mean: tf.zeros([3]), variance: tf.ones([3]) };
        return {
          losses: sparseSoftmaxCrossEntropy(x!, labels!),
          y: relu(x!),
          norm: batchNorm(x!, inputs, { epsilon: 1e-5, batchStatistics: true }).y,
        };
      },
      { x, labels: tf.tensor1d([1, 1], 'int32') },
      1e-6,
    );
    expect(losses.values[0]).toBeNaN();
    expect(losses.values[1]).toBeGreaterThan(0);
    expect(Array.from(y.values)).toEqual([Number.NaN, 1, 2, 3, 0, 1]);
    expect(norm.values[0]).toBeNaN();
  });
});
