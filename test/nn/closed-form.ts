import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { fromTorchLayout, torchShape } from '../../src/nn/layout.ts';
import type { ModelDescription, ModelState, Shape } from '../../src/nn/module.ts';

/**
 * Weights by formula instead of by file: the other side of test/fixtures/generate/backbones.py. Whole numbers up to the last
 * multiplication, so both sides agree exactly.
 */
export function closedForm(name: string, count: number): Float64Array {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(name)) hash = Math.imul(hash ^ byte, 0x01000193);
  const numbers = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    let h = (Math.imul(i, 0x9e3779b1) + hash) | 0;
    h ^= h >>> 16;
    h = Math.imul(h, 0x85ebca6b);
    h ^= h >>> 13;
    h = Math.imul(h, 0xc2b2ae35);
    h ^= h >>> 16;
    numbers[i] = (h >>> 0) / 2147483648 - 1;
  }
  return numbers;
}

/** Values of a parameter or buffer in torch's layout. */
function closedFormValue(name: string, shape: Shape): Float32Array {
  const count = shape.reduce((product, size) => product * size, 1);
  const fan = shape.slice(1).reduce((product, size) => product * size, 1);
  let scale = (u: number) => 0.1 * u;
  if (name.endsWith('running_var')) scale = (u) => 1 + 0.5 * u;
  else if (name.endsWith('running_mean')) scale = (u) => 0.1 * u;
  else if (shape.length > 1) scale = (u) => Math.sqrt(6 / fan) * u;
  else if (name.endsWith('weight')) scale = (u) => 1 + 0.2 * u;
  return Float32Array.from(closedForm(name, count), scale);
}

/** A network's state by closed formula, through the change of layout that loading a torch file takes. */
export function closedFormState(description: Pick<ModelDescription, 'parameters' | 'buffers'>): ModelState {
  const params = description.parameters.map((spec) => {
    const values = fromTorchLayout(spec, closedFormValue(spec.name, torchShape(spec)));
    return [spec.name, tf.tensor(values, [...spec.shape])] as const;
  });
  const buffers = description.buffers.map(
    ({ name, shape }) => [name, tf.tensor(closedFormValue(name, shape), [...shape])] as const,
  );
  return { params: Object.fromEntries(params), buffers: Object.fromEntries(buffers) };
}

/** Images [N,H,W,C] of a case. */
export function closedFormImages(shape: Shape): Tensor {
  const count = shape.reduce((product, size) => product * size, 1);
  return tf.tensor(Float32Array.from(closedForm('images', count)), [...shape]);
}
