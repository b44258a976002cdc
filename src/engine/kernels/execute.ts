import type { Tensor, TensorInfo } from '@tensorflow/tfjs-core';
import { engine } from '../engine.ts';
import { ATTR, type Attr } from '../program/program.ts';
import { DTYPE } from '../tensorflow/dtypes.ts';

/** Attributes of TensorFlow ops, in tfjs's form. */
export const attr = {
  type: (name: string, value: number): Attr => ({ name, type: ATTR.type, value }),
  int: (name: string, value: number | readonly number[]): Attr => ({ name, type: ATTR.int, value }),
  float: (name: string, value: number): Attr => ({ name, type: ATTR.float, value }),
  bool: (name: string, value: boolean): Attr => ({ name, type: ATTR.bool, value }),
  text: (name: string, value: string): Attr => ({ name, type: ATTR.string, value }),
};

export const T_FLOAT: Attr = attr.type('T', DTYPE.float32);

/** Runs (or records) an op with one result. */
export function runOp(name: string, attrs: readonly Attr[], inputs: readonly TensorInfo[]): Tensor {
  return engine().backend.executeSingleOutput(name, attrs, inputs);
}

/** Runs (or records) an op with several results. */
export function runOps(name: string, attrs: readonly Attr[], inputs: readonly TensorInfo[], outputs: number): Tensor[] {
  return engine().backend.executeMultipleOutputs(name, attrs, inputs, outputs);
}
