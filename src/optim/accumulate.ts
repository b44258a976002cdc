import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import type { Tensors } from '../nn/module.ts';

/** Zero sums for the gradients of these parameters. */
export function emptyAccumulator(params: Readonly<Tensors>): Tensors {
  return Object.fromEntries(Object.entries(params).map(([name, value]) => [name, tf.zerosLike(value)]));
}

/**
 * Adds the gradients of one batch to the sums of its window. Each term is divided by the items of the whole window before it is
 * differentiated, so the plain sum is the gradient of the mean over all items, however unequal the batches are, and the tail of an epoch
 * needs no correction. A name without gradient keeps its sum; one without sum starts with its gradient.
 */
export function accumulate(sums: Readonly<Tensors>, gradients: Readonly<Tensors>): Tensors {
  const out: Record<string, Tensor> = { ...sums };
  for (const [name, gradient] of Object.entries(gradients)) {
    const before = sums[name];
    out[name] = before === undefined ? gradient : tf.add(before, gradient);
  }
  return out;
}
