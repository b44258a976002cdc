import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import type { Tensors } from '../nn/module.ts';
import { halfSquareSum } from './clip.ts';

/**
 * Whether all gradients are usable, a bool scalar: no NaN, no infinity, and a norm that float32 can hold (below about 2e19).
 *
 * It looks at the sum of squares, which the global norm needs anyway: in a recorded step the two merge and the check costs one scalar
 * op. The usual `sum(x * 0)` would be wrong here: TensorFlow's graph optimiser replaces `x * 0` by 0.
 */
export function allFinite(gradients: Readonly<Tensors>): Tensor {
  return tf.tidy(() => tf.isFinite(halfSquareSum(gradients)));
}
