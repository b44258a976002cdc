import { readFileSync } from 'node:fs';
import * as tf from '@tensorflow/tfjs-core';
import { afterAll, beforeAll, describe, it } from 'vitest';
import {
  addBias,
  averagePool,
  batchNorm,
  type ConvolutionOptions,
  conv2d,
  dense,
  depthwiseConv2d,
  gather,
  globalAveragePool,
  logSoftmax,
  matMul,
  maxPool,
  type PoolOptions,
  relu,
  relu6,
  softmaxCrossEntropy,
  sparseSoftmaxCrossEntropy,
  valueAndGradients,
} from '../../../src/engine/kernels/index.ts';
import { openTestEngine } from '../../engine-setup.ts';
import { expectClose, inAllModes, type Tensors, tensorOf, type Values, wave } from '../modes.ts';

interface Numbers {
  readonly shape: readonly number[];
  readonly values: readonly number[];
}
interface Case {
  readonly kernel: string;
  readonly name: string;
  readonly inputs: Readonly<Record<string, readonly [shape: number[], seed: number, scale: number, shift?: number]>>;
  readonly options: Readonly<Record<string, unknown>>;
  readonly labels?: readonly number[];
  readonly results: readonly Numbers[];
  readonly gradients: Readonly<Record<string, Numbers>>;
}

/** Float32 sums of up to some hundred products, against float64: 2e-6 of the largest value was seen. */
const TOLERANCE = 1e-5;

const KERNELS: Readonly<Record<string, (t: Tensors, options: never) => readonly tf.Tensor[]>> = {
  conv2d: (t, options: ConvolutionOptions) => [conv2d(t['x']!, t['kernel']!, options)],
  depthwiseConv2d: (t, options: ConvolutionOptions) => [depthwiseConv2d(t['x']!, t['kernel']!, options)],
  maxPool: (t, options: PoolOptions) => [maxPool(t['x']!, options)],
  averagePool: (t, options: PoolOptions) => [averagePool(t['x']!, options)],
  globalAveragePool: (t) => [globalAveragePool(t['x']!)],
  batchNorm: (t, options: { epsilon: number; batchStatistics: boolean }) => {
    const { y, mean, variance } = batchNorm(
      t['x']!,
      { scale: t['scale']!, offset: t['offset']!, mean: t['mean']!, variance: t['variance']! },
      options,
    );
    return options.batchStatistics ? [y, mean, variance] : [y];
  },
  relu: (t) => [relu(t['x']!)],
  relu6: (t) => [relu6(t['x']!)],
  logSoftmax: (t) => [logSoftmax(t['x']!)],
  matMul: (t, options: { transposeA: boolean; transposeB: boolean }) => [
    matMul(t['a']!, t['b']!, options.transposeA, options.transposeB),
  ],
  addBias: (t) => [addBias(t['x']!, t['bias']!)],
  dense: (t) => [dense(t['x']!, t['kernel']!, t['bias'])],
  sparseSoftmaxCrossEntropy: (t) => [sparseSoftmaxCrossEntropy(t['logits']!, t['labels']!)],
  softmaxCrossEntropy: (t) => [softmaxCrossEntropy(t['logits']!, t['targets']!)],
  gather: (t, options: { axis?: number }) => [gather(t['x']!, t['labels']!, options.axis)],
};

function softmax({ shape, values }: Values): Values {
  const classes = shape[1]!;
  const out = new Float32Array(values.length);
  for (let row = 0; row < values.length; row += classes) {
    const powers = Array.from(values.subarray(row, row + classes), Math.exp);
    const sum = powers.reduce((total, power) => total + power, 0);
    powers.forEach((power, i) => {
      out[row + i] = power / sum;
    });
  }
  return { shape, values: out };
}

beforeAll(openTestEngine);

for (const file of ['convolutions', 'pooling', 'norms', 'pointwise', 'products', 'entropies', 'gathers']) {
  const { cases } = JSON.parse(
    readFileSync(new URL(`../../fixtures/kernels/${file}.json`, import.meta.url), 'utf8'),
  ) as { cases: Case[] };

  describe(`${file}: values and gradients are PyTorch's in all modes`, () => {
    for (const { kernel, name, inputs, options, labels, results, gradients } of cases) {
      it(`${kernel}: ${name}`, async () => {
        const given: Record<string, tf.Tensor> = {};
        for (const [key, [shape, seed, scale, shift]] of Object.entries(inputs)) {
          const values = wave(shape, seed, scale, shift);
          given[key] = tensorOf(key === 'targets' ? softmax(values) : values);
        }
        if (labels !== undefined) given['labels'] = tf.tensor1d([...labels], 'int32');
        given['weight'] = tensorOf(wave(results[0]!.shape, 99));

        const actual = await inAllModes(
          (t) => {
            const params = Object.fromEntries(Object.keys(gradients).map((key) => [key, t[key]!]));
            const step = valueAndGradients(() => {
              const outputs = KERNELS[kernel]!(t, options as never);
              const aux = Object.fromEntries(outputs.map((output, i) => [`result ${i}`, output]));
              return { loss: tf.sum(tf.mul(outputs[0]!, t['weight']!)), aux };
            }, params);
            const named = Object.entries(step.gradients).map(([key, value]) => [`gradient of ${key}`, value] as const);
            step.loss.dispose();
            return { ...step.aux, ...Object.fromEntries(named) } as Record<string, tf.Tensor>;
          },
          given,
          TOLERANCE,
        );
        for (const tensor of Object.values(given)) tensor.dispose();

        results.forEach((expected, i) => {
          expectClose(actual[`result ${i}`]!, expected, TOLERANCE, `result ${i}`);
        });
        for (const [key, expected] of Object.entries(gradients)) {
          expectClose(actual[`gradient of ${key}`]!, expected, TOLERANCE, `the gradient of ${key}`);
        }
      });
    }
  });
}

afterAll(() => {
  tf.disposeVariables();
});
