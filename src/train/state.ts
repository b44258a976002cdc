import type { Tensor } from '@tensorflow/tfjs-core';
import type { Tensors } from '../nn/module.ts';

/**
 * Everything that changes while a stage trains: one plain tree, saved and restored whole. Strategy modules lie among `params` and
 * `buffers` under `strategies.<strategy>.<module>.`.
 */
export interface TrainState {
  readonly params: Tensors;
  readonly buffers: Tensors;
  /** Optimizer state by parameter name; only of trainable parameters. */
  readonly slots: Readonly<Record<string, Tensors>>;
  /** Exponential moving averages; empty records where the stage keeps none. */
  readonly ema: { readonly params: Tensors; readonly buffers: Tensors; readonly counters: Tensors };
  /** Gradient sums of an unfinished window; empty without accumulation, zeros between updates. */
  readonly accumulator: Tensors;
  /** Loss scale and its counter under float16; empty otherwise. */
  readonly scaler: Tensors;
  readonly counters: {
    /** int32: optimizer updates applied. */
    readonly updates: Tensor;
    /** int32: batches seen, which is the step of the random numbers. */
    readonly batches: Tensor;
    /** int32: updates left out because something was not finite. */
    readonly skipped: Tensor;
  };
}
