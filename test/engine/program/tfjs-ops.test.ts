import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { capture } from '../../../src/engine/capture.ts';
import { valueAndGradients } from '../../../src/engine/kernels/index.ts';
import { AlambicError } from '../../../src/errors.ts';
import { openTestEngine } from '../../engine-setup.ts';
import { expectClose, inAllModes, tensorOf, valuesOf, wave } from '../modes.ts';

/** The ops a plugin's author reaches for. All are recorded; `gradient: false` marks those for which tfjs has none. */
const OPS: Readonly<Record<string, { shape: number[]; fn: (x: tf.Tensor) => tf.Tensor; gradient?: false }>> = {
  sum: { shape: [3, 4], fn: (x) => tf.sum(x, 1) },
  mean: { shape: [3, 4], fn: (x) => tf.mean(x, 0, true) },
  max: { shape: [3, 4], fn: (x) => tf.max(x, 1) },
  min: { shape: [3, 4], fn: (x) => tf.min(x, 1) },
  prod: { shape: [3, 4], fn: (x) => tf.prod(x, 1) },
  moments: { shape: [3, 4], fn: (x) => tf.moments(x, 0).variance },
  logSumExp: { shape: [3, 4], fn: (x) => tf.logSumExp(x, 1) },
  norm: { shape: [3, 4], fn: (x) => tf.norm(x, 'euclidean', 1) },
  concat: { shape: [3, 4], fn: (x) => tf.concat([x, tf.square(x), x], 1) },
  stack: { shape: [3, 4], fn: (x) => tf.stack([x, tf.neg(x)], 1) },
  unstack: { shape: [3, 4], fn: (x) => tf.mul(tf.unstack(x, 0)[0]!, tf.unstack(x, 0)[2]!) },
  split: { shape: [3, 4], fn: (x) => tf.mul(tf.split(x, 2, 1)[0]!, tf.split(x, 2, 1)[1]!) },
  addN: { shape: [3, 4], fn: (x) => tf.addN([x, tf.square(x), x]) },
  slice: { shape: [3, 4], fn: (x) => tf.slice(x, [1, 0], [2, 3]) },
  stridedSlice: { shape: [6, 4], fn: (x) => tf.stridedSlice(x, [0, 0], [6, 4], [2, 1]), gradient: false },
  transpose: { shape: [2, 3, 4], fn: (x) => tf.transpose(x, [2, 0, 1]) },
  reshape: { shape: [2, 6], fn: (x) => tf.reshape(x, [3, -1]) },
  expandDims: { shape: [2, 6], fn: (x) => tf.squeeze(tf.expandDims(x, 1), [1]) },
  tile: { shape: [2, 3], fn: (x) => tf.tile(x, [2, 2]) },
  pad: { shape: [2, 3], fn: (x) => tf.pad(x, [[1, 0], [0, 2]]) }, // biome-ignore format: the pairs read best in one line
  mirrorPad: { shape: [4, 4], fn: (x) => tf.mirrorPad(x, [[1, 1], [1, 1]], 'reflect'), gradient: false }, // biome-ignore format: see above
  reverse: { shape: [3, 4], fn: (x) => tf.reverse(x, 1) },
  broadcastTo: { shape: [1, 4], fn: (x) => tf.broadcastTo(x, [3, 4]) },
  where: { shape: [3, 4], fn: (x) => tf.where(tf.greater(x, 0), x, tf.square(x)) },
  maximum: { shape: [3, 4], fn: (x) => tf.maximum(x, tf.neg(x)) },
  clipByValue: { shape: [3, 4], fn: (x) => tf.clipByValue(x, -0.5, 0.5) },
  argMax: { shape: [3, 4], fn: (x) => tf.cast(tf.argMax(x, 1), 'float32'), gradient: false },
  topk: { shape: [3, 6], fn: (x) => tf.topk(x, 2).values, gradient: false },
  cumsum: { shape: [3, 4], fn: (x) => tf.cumsum(x, 1) },
  einsum: { shape: [3, 4], fn: (x) => tf.einsum('ij,kj->ik', x, x), gradient: false },
  matMul: { shape: [3, 4], fn: (x) => tf.matMul(x, x, false, true) },
  batchedMatMul: { shape: [2, 3, 4], fn: (x) => tf.matMul(x, x, true, false) },
  dot: { shape: [4], fn: (x) => tf.dot(x, x) },
  softmax: { shape: [3, 4], fn: (x) => tf.softmax(x) },
  logSoftmax: { shape: [3, 4], fn: (x) => tf.logSoftmax(x) },
  sigmoid: { shape: [3, 4], fn: (x) => tf.logSigmoid(tf.sigmoid(x)) },
  tanh: { shape: [3, 4], fn: (x) => tf.tanh(x) },
  elu: { shape: [3, 4], fn: (x) => tf.elu(x) },
  softplus: { shape: [3, 4], fn: (x) => tf.softplus(x) },
  leakyRelu: { shape: [3, 4], fn: (x) => tf.leakyRelu(x, 0.1) },
  erf: { shape: [3, 4], fn: (x) => tf.erf(x) },
  pow: { shape: [3, 4], fn: (x) => tf.pow(tf.add(tf.abs(x), 0.1), 1.7) },
  sqrt: { shape: [3, 4], fn: (x) => tf.sqrt(tf.add(tf.abs(x), 0.1)) },
  rsqrt: { shape: [3, 4], fn: (x) => tf.rsqrt(tf.add(tf.abs(x), 0.1)) },
  log: { shape: [3, 4], fn: (x) => tf.log1p(tf.abs(x)) },
  squaredDifference: { shape: [3, 4], fn: (x) => tf.squaredDifference(x, tf.mean(x, 0)) },
  divNoNan: { shape: [3, 4], fn: (x) => tf.divNoNan(x, tf.add(tf.square(x), 1)) },
  gather: { shape: [5, 3], fn: (x) => tf.gather(x, tf.tensor1d([4, 0, 4], 'int32')) },
  'gather along 1': { shape: [2, 5], fn: (x) => tf.gather(x, tf.tensor1d([1, 1, 3], 'int32'), 1) },
  'maximum against a row': { shape: [3, 4], fn: (x) => tf.maximum(x, tf.mean(x, 0)) },
  'minimum against a scalar': { shape: [3, 4], fn: (x) => tf.minimum(tf.mean(x), x) },
  'gather of computed indices': {
    shape: [5, 5],
    fn: (x) => tf.gather(x, tf.cast(tf.argMax(x, 1), 'int32')),
  },
  oneHot: {
    shape: [3, 4],
    fn: (x) => tf.sum(tf.mul(x, tf.oneHot(tf.tensor1d([3, 0, 1], 'int32'), 4))),
  },
  batchNorm: {
    shape: [3, 4],
    fn: (x) => tf.batchNorm(x, tf.mean(x, 0), tf.add(tf.square(tf.mean(x, 0)), 1), tf.ones([4]), tf.ones([4])),
  },
  conv2d: {
    shape: [1, 5, 5, 2],
    fn: (x) => tf.conv2d(x as tf.Tensor4D, tf.ones([3, 3, 2, 2]), 1, 'same'),
  },
  maxPool: { shape: [1, 4, 4, 2], fn: (x) => tf.maxPool(x as tf.Tensor4D, 2, 2, 'valid') },
  avgPool: { shape: [1, 4, 4, 2], fn: (x) => tf.avgPool(x as tf.Tensor4D, 2, 2, 'valid') },
  resizeBilinear: { shape: [1, 4, 4, 2], fn: (x) => tf.image.resizeBilinear(x as tf.Tensor4D, [7, 6]) },
  // XLA has no gradient op of nearest-neighbour resizing: it trains in graph mode only.
  resizeNearest: {
    shape: [1, 4, 4, 2],
    fn: (x) => tf.image.resizeNearestNeighbor(x as tf.Tensor4D, [8, 8]),
    gradient: false,
  },
  unsortedSegmentSum: {
    shape: [4, 2],
    fn: (x) => tf.unsortedSegmentSum(x, tf.tensor1d([0, 2, 0, 1], 'int32'), 3),
  },
  spaceToBatch: {
    shape: [1, 4, 4, 2],
    fn: (x) => tf.batchToSpaceND(tf.spaceToBatchND(x, [2, 2], [[0, 0], [0, 0]]), [2, 2], [[0, 0], [0, 0]]), // biome-ignore format: see above
  },
  depthToSpace: { shape: [1, 2, 2, 4], fn: (x) => tf.depthToSpace(x as tf.Tensor4D, 2), gradient: false },
  linspace: { shape: [3], fn: (x) => tf.mul(x, tf.linspace(0, 1, 3)) },
  range: { shape: [3], fn: (x) => tf.mul(x, tf.range(0, 3)) },
  eye: { shape: [3, 3], fn: (x) => tf.mul(x, tf.eye(3)) },
  cosineDistance: { shape: [3, 4], fn: (x) => tf.losses.cosineDistance(x, tf.square(x), 1) },
  huberLoss: { shape: [3, 4], fn: (x) => tf.losses.huberLoss(tf.zerosLike(x), x) },
  scatterND: {
    shape: [2, 3],
    fn: (x) => tf.scatterND(tf.tensor2d([[3], [1]], [2, 1], 'int32'), x, [5, 3]),
    gradient: false,
  },
  gatherND: { shape: [3, 4], fn: (x) => tf.gatherND(x, tf.tensor2d([[2], [0]], [2, 1], 'int32')), gradient: false },
};

beforeAll(openTestEngine);

describe('tfjs ops inside a recorded function', () => {
  for (const [name, { shape, fn, gradient }] of Object.entries(OPS)) {
    it(`${name}: eager = graph = xla${gradient === false ? '' : ', gradient too'}`, async () => {
      const x = tensorOf(wave(shape, 40));
      await inAllModes(
        ({ x }) => {
          if (gradient === false) return { y: fn(x!) };
          const step = valueAndGradients(
            () => {
              const y = fn(x!);
              return { loss: tf.sum(tf.square(y)), aux: { y } };
            },
            { x: x! },
          );
          return { y: step.aux.y, loss: step.loss, gradient: step.gradients['x']! };
        },
        { x },
      );
      x.dispose();
    });
  }

  it('tf.gather of device-made indices has the gradient that sums repeated rows', async () => {
    const x = tf.tensor2d([[1, 2], [3, 4], [5, 6]]); // biome-ignore format: a matrix
    const { gradient } = await inAllModes(
      ({ x, indices }) => {
        const step = valueAndGradients(() => ({ loss: tf.sum(tf.gather(x!, indices!)), aux: {} }), { x: x! });
        step.loss.dispose();
        return { gradient: step.gradients['x']! };
      },
      { x, indices: tf.tensor1d([2, 2, 0], 'int32') },
    );
    expectClose(gradient, { shape: [3, 2], values: [1, 1, 0, 0, 2, 2] }, 0, 'the gradient');
  });

  it('an index out of range is an error in eager and graph mode', async () => {
    const take = (mode: 'eager' | 'graph') =>
      capture('take', (x: tf.Tensor, i: tf.Tensor) => tf.gather(x, i), { mode })(
        tf.tensor1d([1, 2]),
        tf.tensor1d([2], 'int32'),
      );
    await expect(take('eager')).rejects.toMatchObject({ code: 'TENSORFLOW_INVALID_ARGUMENT' });
    await expect(take('graph')).rejects.toMatchObject({ code: 'TENSORFLOW_INVALID_ARGUMENT' });
  });
});

describe('random ops of tfjs', () => {
  const draws: Readonly<Record<string, (x: tf.Tensor) => tf.Tensor>> = {
    dropout: (x) => tf.dropout(x, 0.5),
    randomUniform: (x) => tf.add(x, tf.randomUniform(x.shape)),
    randomNormal: (x) => tf.add(x, tf.randomNormal(x.shape)),
    truncatedNormal: (x) => tf.add(x, tf.truncatedNormal(x.shape)),
    randomGamma: (x) => tf.add(x, tf.randomGamma(x.shape, 2)),
    multinomial: (x) => tf.multinomial(x as tf.Tensor2D, 1),
  };
  for (const [op, fn] of Object.entries(draws)) {
    it(`tf.${op} is refused with the user's line`, async () => {
      const x = tf.ones([2, 3]);
      const error = await capture('draw', fn, { mode: 'graph' })(x).catch((caught: unknown) => caught);
      expect(error).toBeInstanceOf(AlambicError);
      expect(error).toMatchObject({ code: 'RANDOM_WHILE_RECORDING', message: expect.stringContaining(`tf.${op} `) });
      expect((error as AlambicError).at).toMatch(/tfjs-ops\.test\.ts:\d+:\d+$/);
      expect((error as AlambicError).hint).toContain('step.random');
      // The failure leaves tfjs's scopes balanced and the op usable outside.
      expect(valuesOf(fn(x)).shape[0]).toBe(2);
      x.dispose();
    });
  }
});
