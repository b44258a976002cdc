import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { AlambicError } from '../../errors.ts';
import { DTYPE } from '../tensorflow/dtypes.ts';
import { differentiable } from './differentiable.ts';
import { attr, runOps, T_FLOAT } from './execute.ts';

export interface BatchNormInputs {
  /** gamma [C]. */
  readonly scale: Tensor;
  /** beta [C]. */
  readonly offset: Tensor;
  /** Running mean and variance [C]; read only where the batch's own are not used. */
  readonly mean: Tensor;
  readonly variance: Tensor;
}

export interface BatchNormResult {
  readonly y: Tensor;
  /** Statistics used [C]; with batch statistics the variance is the unbiased one, which running statistics average. */
  readonly mean: Tensor;
  readonly variance: Tensor;
}

/**
 * Batch normalisation over N, H, W of x [N,H,W,C] (or over N of [N,C]) by TensorFlow's fused kernel, with gradients of x, scale and
 * offset in both modes (arXiv 1502.03167). `batchStatistics: false` is the frozen mode: it neither uses nor reports the batch's own.
 *
 * @example
 * const { y, mean, variance } = batchNorm(x, { scale, offset, mean: m, variance: v }, { epsilon: 1e-5, batchStatistics: true });
 */
export function batchNorm(
  x: Tensor,
  inputs: BatchNormInputs,
  options: { epsilon: number; batchStatistics: boolean },
): BatchNormResult {
  if (x.rank !== 4 && x.rank !== 2) {
    throw new AlambicError('KERNEL_SHAPE', `batchNorm expects x [N,H,W,C] or [N,C], got [${x.shape}]`);
  }
  const channels = x.shape[x.rank - 1]!;
  for (const [name, tensor] of Object.entries(inputs) as [string, Tensor][]) {
    if (tensor.rank !== 1 || tensor.shape[0] !== channels) {
      throw new AlambicError('KERNEL_SHAPE', `batchNorm expects ${name} of shape [${channels}], got [${tensor.shape}]`);
    }
  }
  if (x.rank === 2) {
    const { y, mean, variance } = batchNorm(tf.reshape(x, [x.shape[0]!, 1, 1, channels]), inputs, options);
    return { y: tf.reshape(y, x.shape), mean, variance };
  }
  const attrs = [
    T_FLOAT,
    attr.type('U', DTYPE.float32),
    attr.float('epsilon', options.epsilon),
    attr.text('data_format', 'NHWC'),
    attr.bool('is_training', options.batchStatistics),
  ];
  const empty = () => tf.tensor1d([], 'float32');
  const { scale, offset } = inputs;
  const [y, mean, variance] = differentiable(
    { x, scale, offset },
    () => {
      const statistics = options.batchStatistics ? [empty(), empty()] : [inputs.mean, inputs.variance];
      const [out, m, v, saved1, saved2, saved3] = runOps(
        'FusedBatchNormV3',
        attrs,
        [x, scale, offset, ...statistics],
        6,
      );
      return {
        results: [out!, m!, v!],
        saved: options.batchStatistics ? [x, scale, saved1!, saved2!, saved3!] : [x, scale, ...statistics, empty()],
      };
    },
    (dy, [savedX, savedScale, saved1, saved2, saved3]) => {
      // One op gives all three; made here and not in the thunks, since tfjs tidies up after each thunk.
      const [dx, dScale, dOffset] = runOps(
        'FusedBatchNormGradV3',
        attrs,
        [dy, savedX!, savedScale!, saved1!, saved2!, saved3!],
        5,
      );
      return { x: () => dx!, scale: () => dScale!, offset: () => dOffset! };
    },
  );
  return { y: y!, mean: mean!, variance: variance! };
}
