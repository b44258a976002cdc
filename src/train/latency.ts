import * as tf from '@tensorflow/tfjs-core';
import { capture } from '../engine/capture.ts';
import { makeKey } from '../engine/random.ts';
import { applyModule } from '../nn/describe.ts';
import type { Backbone, ModelState, Tensors } from '../nn/module.ts';

export interface Latency {
  /** Median milliseconds of one image through the network, compiled, on this machine. */
  readonly median: number;
  readonly minimum: number;
  readonly runs: number;
}

/** Times single images through a network in the engine's mode, after a few runs to warm up. */
export async function measureLatency(backbone: Backbone, state: ModelState, runs = 30): Promise<Latency> {
  const key = makeKey(0, 'latency');
  const predict = capture(
    `latency ${backbone.architecture}`,
    (values: { params: Tensors; buffers: Tensors }, x: tf.Tensor) =>
      applyModule(backbone, values, x, { mode: 'infer', key }).output,
  );
  const x = tf.zeros([1, ...backbone.inputSize]);
  const values = { params: state.params, buffers: state.buffers };
  const times: number[] = [];
  try {
    for (let i = 0; i < runs + 5; i++) {
      const started = performance.now();
      const y = await predict(values, x);
      y.dataSync();
      if (i >= 5) times.push(performance.now() - started);
      y.dispose();
    }
  } finally {
    x.dispose();
    predict.dispose();
  }
  times.sort((a, b) => a - b);
  return { median: times[times.length >> 1]!, minimum: times[0]!, runs };
}
