import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { capture } from '../../src/engine/capture.ts';
import {
  averagePool,
  batchNorm,
  conv2d,
  dense,
  depthwiseConv2d,
  dropout,
  gather,
  globalAveragePool,
  maxPool,
  relu,
  sparseSoftmaxCrossEntropy,
  valueAndGradients,
} from '../../src/engine/kernels/index.ts';
import { makeKey } from '../../src/engine/random.ts';
import { openTestEngine } from '../engine-setup.ts';
import { type Tensors, tensorOf, wave } from './modes.ts';

beforeAll(openTestEngine);

/** Each at a size at which TensorFlow shares the work among its threads. The numbers must not depend on which is first. */
const PARTS: Readonly<Record<string, { inputs: () => Tensors; loss: (t: Tensors) => tf.Tensor }>> = {
  convolution: {
    inputs: () => ({ x: tensorOf(wave([32, 32, 32, 32], 1)), kernel: tensorOf(wave([3, 3, 32, 64], 2, 0.2)) }),
    loss: ({ x, kernel }) => tf.mean(tf.square(conv2d(x!, kernel!, { padding: 1, stride: 2 }))),
  },
  'pointwise and depthwise convolution': {
    inputs: () => ({
      x: tensorOf(wave([16, 32, 32, 32], 3)),
      wide: tensorOf(wave([1, 1, 32, 96], 4)),
      deep: tensorOf(wave([3, 3, 96, 1], 5)),
    }),
    loss: ({ x, wide, deep }) => tf.mean(tf.square(depthwiseConv2d(conv2d(x!, wide!), deep!, { padding: 1 }))),
  },
  'batch normalisation': {
    inputs: () => ({
      x: tensorOf(wave([64, 32, 32, 32], 6)),
      scale: tensorOf(wave([32], 7)),
      offset: tensorOf(wave([32], 8)),
    }),
    loss: ({ x, scale, offset }) => {
      const statistics = { mean: tf.zeros([32]), variance: tf.ones([32]) };
      const norm = batchNorm(
        x!,
        { scale: scale!, offset: offset!, ...statistics },
        { epsilon: 1e-5, batchStatistics: true },
      );
      return tf.add(tf.mean(tf.square(relu(norm.y))), tf.sum(norm.variance));
    },
  },
  pooling: {
    inputs: () => ({ x: tensorOf(wave([32, 56, 56, 32], 9)) }),
    loss: ({ x }) => {
      const y = averagePool(maxPool(x!, { size: 3, stride: 2, padding: 1 }), { size: 2 });
      return tf.sum(tf.square(globalAveragePool(y)));
    },
  },
  'matrix products and cross-entropy': {
    inputs: () => ({
      x: tensorOf(wave([256, 512], 10)),
      w: tensorOf(wave([512, 1000], 11)),
      b: tensorOf(wave([1000], 12)),
    }),
    loss: ({ x, w, b }) => {
      const labels = tf.tensor1d(Array.from({ length: 256 }, (_, i) => (i * 37) % 1000), 'int32'); // biome-ignore format: one line
      return tf.mean(sparseSoftmaxCrossEntropy(dense(dropout(x!, 0.2, makeKey(1, 'drop')), w!, b!), labels));
    },
  },
  'reductions and repeated indices': {
    inputs: () => ({ x: tensorOf(wave([4000, 64], 13)) }),
    loss: ({ x }) => {
      const rows = tf.tensor1d(Array.from({ length: 20_000 }, (_, i) => (i * 7919) % 97), 'int32'); // biome-ignore format: one line
      return tf.add(tf.sum(tf.exp(gather(x!, rows))), tf.norm(x!));
    },
  },
};

describe('the same step on the same state gives the same bits', () => {
  for (const [name, { inputs, loss }] of Object.entries(PARTS)) {
    for (const mode of ['graph', 'xla'] as const) {
      it(`${name}, ${mode}`, async () => {
        const given = inputs();
        const run = capture(
          'repeat',
          (t: Tensors) => {
            const step = valueAndGradients(() => ({ loss: loss(t), aux: {} }), t);
            return { loss: step.loss, ...step.gradients } as Record<string, tf.Tensor>;
          },
          { mode },
        );
        let first: Record<string, Buffer> | undefined;
        for (let repeat = 0; repeat < 6; repeat++) {
          const result = await run(given);
          const bits = Object.fromEntries(
            Object.entries(result).map(([key, tensor]) => [
              key,
              Buffer.from((tensor.dataSync() as Float32Array).buffer),
            ]),
          );
          first ??= bits;
          for (const [key, bytes] of Object.entries(bits)) {
            expect(bytes.equals(first[key]!), `${key} of run ${repeat} has the bits of run 0`).toBe(true);
          }
          tf.dispose(result);
        }
        run.dispose();
        tf.dispose(given);
      });
    }
  }
});
