import * as tf from '@tensorflow/tfjs-core';
import { expect } from 'vitest';
import { capture } from '../../src/engine/capture.ts';
import type { EngineMode } from '../../src/engine/engine.ts';
import type { Tree } from '../../src/tree.ts';

/** A tensor's values in JavaScript. */
export interface Values {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

export type Tensors = Readonly<Record<string, tf.Tensor>>;

export const MODES: readonly EngineMode[] = ['eager', 'graph', 'xla'];

/** `shape` numbers between -scale + shift and scale + shift, the same as `wave` of the fixtures' scripts. */
export function wave(shape: readonly number[], seed: number, scale = 1, shift = 0): Values {
  const size = shape.reduce((product, n) => product * n, 1);
  const values = Float32Array.from({ length: size }, (_, i) =>
    Math.fround((((i * 7919 + seed * 104729) % 1009) / 504.5 - 1) * scale),
  );
  return { shape, values: shift === 0 ? values : values.map((value) => value + shift) };
}

export function tensorOf({ shape, values }: Values, dtype: 'float32' | 'int32' = 'float32'): tf.Tensor {
  return tf.tensor(dtype === 'int32' ? Int32Array.from(values) : values, shape as number[], dtype);
}

export function valuesOf(tensor: tf.Tensor): Values {
  return { shape: tensor.shape, values: Float32Array.from(tensor.dataSync()) };
}

/** Largest difference of two arrays, divided by the larger of 1 and the largest value expected. */
export function relativeError(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  if (actual.length !== expected.length) return Number.POSITIVE_INFINITY;
  let scale = 1;
  let worst = 0;
  for (let i = 0; i < expected.length; i++) {
    const a = actual[i]!;
    const b = expected[i]!;
    if (Object.is(a, b) || a === b) continue;
    if (!Number.isFinite(a) || !Number.isFinite(b)) return Number.POSITIVE_INFINITY;
    scale = Math.max(scale, Math.abs(b));
    worst = Math.max(worst, Math.abs(a - b));
  }
  return worst / scale;
}

export function expectClose(
  actual: Values,
  expected: { readonly shape: readonly number[]; readonly values: ArrayLike<number> },
  tolerance: number,
  what: string,
): void {
  expect(actual.shape, `shape of ${what}`).toEqual(expected.shape);
  expect(relativeError(actual.values, expected.values), `relative error of ${what}`).toBeLessThanOrEqual(tolerance);
}

/**
 * Runs `fn` op by op, as a graph and compiled by XLA, expects the same of all three and no tensor left over, and gives the eager
 * results. `tolerance` is relative to the largest value of each result: the modes sum in different orders.
 */
export async function inAllModes<R extends Readonly<Record<string, tf.Tensor>>>(
  fn: (inputs: Tensors) => R,
  inputs: Tensors,
  tolerance = 1e-5,
): Promise<Record<keyof R & string, Values>> {
  let first: Record<string, Values> | undefined;
  for (const mode of MODES) {
    const captured = capture('case', (given: Tensors) => fn(given) as unknown as Tree<tf.Tensor>, { mode });
    for (const input of Object.values(inputs)) tf.backend().readSync(input.dataId); // uploaded, so that counting is exact
    const before = tf.memory().numTensors;
    const results = (await captured(inputs)) as unknown as R;
    expect(tf.memory().numTensors - before, `tensors that ${mode} mode gave`).toBe(Object.keys(results).length);
    const values: Record<string, Values> = {};
    for (const [name, tensor] of Object.entries(results)) {
      values[name] = valuesOf(tensor);
      tensor.dispose();
    }
    captured.dispose();
    if (first === undefined) first = values;
    else {
      expect(Object.keys(values), `names in ${mode} mode`).toEqual(Object.keys(first));
      for (const [name, value] of Object.entries(values)) {
        expectClose(value, first[name]!, tolerance, `${name} in ${mode} mode against eager`);
      }
    }
  }
  return first as Record<keyof R & string, Values>;
}
