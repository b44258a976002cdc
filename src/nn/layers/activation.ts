import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { relu, relu6 } from '../../engine/kernels/index.ts';
import type { Module, Scope } from '../module.ts';

const FUNCTIONS = {
  relu,
  relu6,
  /** x * sigmoid(x) (arXiv 1702.03118). */
  silu: (x: Tensor) => tf.mul(x, tf.sigmoid(x)),
  /** x * Phi(x) by erf, torch's default, not the tanh approximation (arXiv 1606.08415). */
  gelu: (x: Tensor) => tf.mul(tf.mul(x, 0.5), tf.add(tf.erf(tf.mul(x, Math.SQRT1_2)), 1)),
  hardswish: (x: Tensor) => tf.mul(x, tf.mul(relu6(tf.add(x, 3)), 1 / 6)),
  tanh: (x: Tensor) => tf.tanh(x),
  sigmoid: (x: Tensor) => tf.sigmoid(x),
  identity: (x: Tensor) => x,
} as const;

export type ActivationName = keyof typeof FUNCTIONS;

export const ACTIVATIONS = Object.keys(FUNCTIONS) as readonly ActivationName[];

/** An element-wise function as a module, so that its output is a tap. */
export class Activation implements Module {
  readonly #name: ActivationName;

  constructor(name: ActivationName) {
    this.#name = name;
  }

  call(scope: Scope, x: Tensor): Tensor {
    return scope.tap('', FUNCTIONS[this.#name](x));
  }
}
