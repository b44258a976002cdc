import type { Scalar, Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { runOp, T_FLOAT } from '../engine/kernels/execute.ts';
import type { Tensors } from '../nn/module.ts';

/** Half the sum of all squares of a record, by one op per tensor. */
export function halfSquareSum(tensors: Readonly<Tensors>): Scalar {
  const sums = Object.values(tensors).map((tensor) => runOp('L2Loss', [T_FLOAT], [tensor]));
  if (sums.length === 0) return tf.scalar(0);
  return (sums.length === 1 ? sums[0]! : tf.addN(sums)) as Scalar;
}

/** Euclidean norm of all tensors of a record together, float32 scalar. */
export function globalNorm(tensors: Readonly<Tensors>): Scalar {
  return tf.tidy(() => tf.sqrt(tf.mul(halfSquareSum(tensors), 2)));
}

/**
 * Scales all gradients by `min(1, maxNorm / (norm + 1e-6))`, as `torch.nn.utils.clip_grad_norm_`. Gives the norm before; with
 * `maxNorm = Infinity` the gradients stay as they are.
 *
 * @example
 * const { gradients, norm } = clipByGlobalNorm(all, 1);
 */
export function clipByGlobalNorm(gradients: Readonly<Tensors>, maxNorm: number): { gradients: Tensors; norm: Scalar } {
  if (maxNorm === Number.POSITIVE_INFINITY) return { gradients: { ...gradients }, norm: globalNorm(gradients) };
  return tf.tidy(() => {
    const norm = globalNorm(gradients);
    const factor = tf.minimum(tf.div(maxNorm, tf.add(norm, 1e-6)), 1);
    return { gradients: mapRecord(gradients, (gradient) => tf.mul(gradient, factor)), norm };
  });
}

/** Limits each element of the gradients to −limit..limit. */
export function clipByValue(gradients: Readonly<Tensors>, limit: number): Tensors {
  return mapRecord(gradients, (gradient) => tf.clipByValue(gradient, -limit, limit));
}

function mapRecord(tensors: Readonly<Tensors>, map: (tensor: Tensor) => Tensor): Tensors {
  return Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, map(tensor)]));
}
