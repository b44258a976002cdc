import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';

/** tfjs's engine call behind `customGrad`, which unlike it allows several results and gradients on demand. */
interface KernelRunner {
  runKernelFunc(parameters: {
    inputs: Record<string, Tensor>;
    forwardFunc: (backend: unknown, save: (tensors: Tensor[]) => void) => Tensor[];
    backwardsFunc: (dys: Tensor | Tensor[], saved: Tensor[]) => Record<string, () => Tensor>;
  }): Tensor[];
}

/**
 * An op with a gradient of its own. `forward` gives the results and what the gradient needs of them; `backward` gives one thunk per
 * input, so that the gradient of a frozen input is never computed. Only the first result is differentiated.
 */
export function differentiable<I extends Record<string, Tensor>>(
  inputs: I,
  forward: () => { results: Tensor[]; saved: Tensor[] },
  backward: (dy: Tensor, saved: Tensor[]) => { [K in keyof I]: () => Tensor },
): Tensor[] {
  return (tf.engine() as unknown as KernelRunner).runKernelFunc({
    inputs,
    forwardFunc: (_, save) => {
      const { results, saved } = forward();
      save(saved);
      return results;
    },
    backwardsFunc: (dys, saved) => backward(Array.isArray(dys) ? dys[0]! : dys, saved),
  });
}
