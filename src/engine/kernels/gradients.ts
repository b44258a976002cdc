import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { AlambicError } from '../../errors.ts';
import { mapTree, type Tree } from '../../tree.ts';
import { differentiable } from './differentiable.ts';

interface GradientEngine {
  gradients(
    f: () => Tensor,
    xs: Tensor[],
    dy: null,
    allowNone: boolean,
  ): { value: Tensor; grads: (Tensor | undefined)[] };
}

/**
 * Value of a scalar loss and its gradients by parameter name. `aux` is any tree of tensors that `fn` wants to give besides the loss.
 * A parameter that the loss does not depend on has no gradient.
 *
 * @example
 * const { loss, gradients } = valueAndGradients(() => ({ loss: tf.mean(dense(x, params.w)), aux: {} }), params);
 */
export function valueAndGradients<A extends Tree<Tensor>>(
  fn: () => { loss: Tensor; aux: A },
  params: Readonly<Record<string, Tensor>>,
): { loss: Tensor; gradients: Record<string, Tensor>; aux: A } {
  const names = Object.keys(params);
  const kept: Tensor[] = [];
  let aux: A | undefined;
  const forward = () => {
    const result = fn();
    if (result.loss.rank !== 0)
      throw new AlambicError('LOSS_SHAPE', `expected a scalar loss, got shape [${result.loss.shape}]`);
    // tfjs disposes what the function made; what must outlive it is kept by a clone, which shares the data.
    aux = mapTree<Tensor, Tensor>(result.aux, (leaf) => {
      const clone = tf.keep(tf.clone(leaf));
      kept.push(clone);
      return clone;
    }) as A;
    return result.loss;
  };
  if (names.length === 0) {
    const loss = tf.tidy(forward);
    return { loss, gradients: {}, aux: release(aux as A, kept) };
  }
  const { value, grads } = (tf.engine() as unknown as GradientEngine).gradients(
    forward,
    Object.values(params),
    null,
    true,
  );
  const gradients: Record<string, Tensor> = {};
  names.forEach((name, i) => {
    const gradient = grads[i];
    if (gradient !== undefined && gradient !== null) gradients[name] = gradient;
  });
  return { loss: value, gradients, aux: release(aux as A, kept) };
}

/** Hands kept tensors to the current scope, so that an enclosing `tidy` takes care of them as of any other. */
function release<A extends Tree<Tensor>>(aux: A, kept: readonly Tensor[]): A {
  const released = mapTree<Tensor, Tensor>(aux, (leaf) => tf.clone(leaf)) as A;
  for (const tensor of kept) tensor.dispose();
  return released;
}

/** x, through which no gradient flows. */
export function stopGradient(x: Tensor): Tensor {
  const [y] = differentiable(
    { x },
    () => ({ results: [tf.clone(x)], saved: [] }),
    () => ({ x: () => tf.zerosLike(x) }),
  );
  return y!;
}
