import { createHash } from 'node:crypto';
import * as tf from '@tensorflow/tfjs-core';
import type { ModelState } from '../nn/module.ts';

/** sha256 over names, shapes and values of all parameters and buffers: equal before and after means that nothing moved. */
export function fingerprint(state: ModelState): string {
  const hash = createHash('sha256');
  for (const [kind, tensors] of [
    ['params', state.params],
    ['buffers', state.buffers],
  ] as const) {
    for (const name of Object.keys(tensors).sort()) {
      const tensor = tensors[name]!;
      const values = tensor.dataSync();
      hash.update(`${kind} ${name} [${tensor.shape}]\n`);
      hash.update(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    }
  }
  return hash.digest('hex');
}

/** Frees a network's values. */
export function disposeModel(state: ModelState): void {
  tf.dispose([state.params, state.buffers] as unknown as tf.TensorContainer);
}
