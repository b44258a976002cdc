import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';

type Saved = readonly Tensor[];

/** A gradient of zeros. tfjs wants one wherever a path leads, even where nothing can flow. */
const zeros = (x: Tensor) => () => tf.fill(x.shape, 0, 'float32');

/** Sums a gradient over the axes along which an input of this shape was broadcast. */
function sumTo(gradient: Tensor, shape: readonly number[]): Tensor {
  const axes = tf.backend_util.getReductionAxes(shape as number[], gradient.shape);
  return tf.reshape(axes.length === 0 ? gradient : tf.sum(gradient, axes), shape as number[]);
}

/** Ops whose results are true, false or a place: tfjs has no gradient for them, and so none for `where(greater(x, 0), x, …)`. */
const STEPS: Readonly<Record<string, readonly string[]>> = {
  ArgMax: ['x'],
  ArgMin: ['x'],
  Equal: ['a', 'b'],
  Greater: ['a', 'b'],
  GreaterEqual: ['a', 'b'],
  IsFinite: ['x'],
  IsInf: ['x'],
  IsNan: ['x'],
  Less: ['a', 'b'],
  LessEqual: ['a', 'b'],
  LogicalAnd: ['a', 'b'],
  LogicalNot: ['x'],
  LogicalOr: ['a', 'b'],
  NotEqual: ['a', 'b'],
};

/** A binary op's gradient that tfjs forgets to sum over broadcast axes. */
function registerBinary(
  kernelName: string,
  slopes: (a: Tensor, b: Tensor) => { a: () => Tensor; b: () => Tensor },
): void {
  tf.registerGradient({
    kernelName,
    inputsToSave: ['a', 'b'],
    gradFunc: (dy, saved) => {
      const [a, b] = saved as Saved;
      const slope = slopes(a!, b!);
      return {
        a: () => sumTo(tf.mul(dy as Tensor, slope.a()), a!.shape),
        b: () => sumTo(tf.mul(dy as Tensor, slope.b()), b!.shape),
      };
    },
  });
}

/** Gives tfjs's ops the gradients that it lacks or has wrong. Call it once tfjs's own are registered. */
export function completeGradients(): void {
  for (const [kernelName, inputs] of Object.entries(STEPS)) {
    if (tf.getGradient(kernelName) !== undefined) continue;
    tf.registerGradient({
      kernelName,
      inputsToSave: [...inputs],
      gradFunc: (_, saved) => Object.fromEntries(inputs.map((name, i) => [name, zeros((saved as Saved)[i]!)])),
    });
  }
  registerBinary('SquaredDifference', (a, b) => ({
    a: () => tf.mul(tf.sub(a, b), 2),
    b: () => tf.mul(tf.sub(b, a), 2),
  }));
  registerBinary('Maximum', (a, b) => ({
    a: () => tf.cast(tf.greaterEqual(a, b), 'float32'),
    b: () => tf.cast(tf.less(a, b), 'float32'),
  }));
  registerBinary('Minimum', (a, b) => ({
    a: () => tf.cast(tf.lessEqual(a, b), 'float32'),
    b: () => tf.cast(tf.greater(a, b), 'float32'),
  }));
  const gather = tf.getGradient('GatherV2');
  tf.registerGradient({
    ...gather,
    // tfjs gives the int32 indices themselves as their gradient, and then refuses that.
    gradFunc: (dy, saved, attrs) => ({ ...gather.gradFunc(dy, saved, attrs), indices: zeros((saved as Saved)[1]!) }),
  });
}
