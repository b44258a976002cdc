import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import type { Loader } from '../data/loader.ts';
import type { HostBatch } from '../data/source.ts';
import { type Captured, capture } from '../engine/capture.ts';
import { bytesTensor, sparseSoftmaxCrossEntropy } from '../engine/kernels/index.ts';
import { makeKey } from '../engine/random.ts';
import { AlambicError } from '../errors.ts';
import { applyModule } from '../nn/describe.ts';
import type { ModelState, Module } from '../nn/module.ts';
import type { Metric } from '../plugin-host/contract.ts';
import { type DeviceBatch, type Preparation, prepareImages } from './step.ts';

/** A host batch as tensors; the caller disposes them. */
export function uploadBatch(batch: HostBatch): DeviceBatch {
  return { images: bytesTensor(batch.images, batch.shape), labels: tf.tensor1d(batch.labels, 'int32') };
}

/** What a network said of every item of a split, in the split's order. */
export interface Outputs {
  /** float32 [items, classes], row by row. */
  readonly logits: Float32Array;
  readonly labels: Int32Array;
  /** Cross-entropy per item; 0 for items without label. */
  readonly losses: Float32Array;
  /** Positions in the source. */
  readonly indices: Int32Array;
  readonly classes: number;
}

type EvaluationArguments = [{ params: Record<string, Tensor>; buffers: Record<string, Tensor> }, DeviceBatch];

/** Runs a network over a split in mode `infer`: nothing moves, nothing is random, every item counts once. */
export class Evaluator {
  readonly #captured: Captured<EvaluationArguments, { logits: Tensor; losses: Tensor }>;
  readonly #classes: number;

  constructor(name: string, module: Module, preparation: Preparation, classes: number) {
    this.#classes = classes;
    this.#captured = capture(`evaluate ${name}`, (state: EvaluationArguments[0], batch: DeviceBatch) => {
      const key = makeKey(0, 'evaluation');
      const images = prepareImages(batch.images, preparation, key, false);
      const { output } = applyModule(module, state, images, { mode: 'infer', key });
      if (output.rank !== 2 || output.shape[1] !== classes) {
        throw new AlambicError('MODEL_CLASSES', `expected logits [N,${classes}] of ${name}, got [${output.shape}]`, {
          hint: 'The network must have as many classes as the data has labels.',
        });
      }
      return { logits: output, losses: sparseSoftmaxCrossEntropy(output, batch.labels) };
    });
  }

  /** Logits and losses of one batch. */
  async run(state: ModelState, batch: HostBatch): Promise<{ logits: Float32Array; losses: Float32Array }> {
    const device = uploadBatch(batch);
    const result = await this.#captured({ params: state.params, buffers: state.buffers }, device);
    const logits = result.logits.dataSync() as Float32Array;
    const losses = result.losses.dataSync() as Float32Array;
    tf.dispose([result as unknown as tf.TensorContainer, device as tf.TensorContainer]);
    return { logits, losses };
  }

  /** Outputs for all items of a loader, which must not shuffle. */
  async outputs(state: ModelState, loader: Loader, signal?: AbortSignal): Promise<Outputs> {
    const parts: { batch: HostBatch; logits: Float32Array; losses: Float32Array }[] = [];
    let items = 0;
    for await (const batch of loader.epoch(0)) {
      if (signal?.aborted) break;
      parts.push({ batch, ...(await this.run(state, batch)) });
      items += batch.labels.length;
    }
    const out = {
      logits: new Float32Array(items * this.#classes),
      labels: new Int32Array(items),
      losses: new Float32Array(items),
      indices: new Int32Array(items),
      classes: this.#classes,
    };
    let at = 0;
    for (const { batch, logits, losses } of parts) {
      out.logits.set(logits, at * this.#classes);
      out.labels.set(batch.labels, at);
      out.losses.set(losses, at);
      out.indices.set(batch.indices, at);
      at += batch.labels.length;
    }
    return out;
  }

  dispose(): void {
    this.#captured.dispose();
  }
}

/** Metrics of outputs: sums over samples, so that the result does not depend on how they were batched. */
export function measure(outputs: Outputs, metrics: readonly Metric[]): Record<string, number> {
  const result: Record<string, number> = {};
  for (const metric of metrics) {
    metric.update(outputs);
    Object.assign(result, metric.result());
  }
  return result;
}

/** Softmax of rows [N,C] in float64. */
export function softmaxRows(logits: Float32Array, classes: number): Float32Array {
  const out = new Float32Array(logits.length);
  for (let row = 0; row < logits.length / classes; row++) {
    let largest = Number.NEGATIVE_INFINITY;
    for (let c = 0; c < classes; c++) largest = Math.max(largest, logits[row * classes + c]!);
    let sum = 0;
    for (let c = 0; c < classes; c++) sum += Math.exp(logits[row * classes + c]! - largest);
    for (let c = 0; c < classes; c++) out[row * classes + c] = Math.exp(logits[row * classes + c]! - largest) / sum;
  }
  return out;
}
