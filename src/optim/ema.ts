import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { AlambicError } from '../errors.ts';
import type { Tensors } from '../nn/module.ts';

/** How an exponential moving average follows. */
export interface EmaOptions {
  /** Share of the average that stays at each update, 0..1. */
  readonly decay: number;
  /**
   * A smaller decay at first. `true`: `min(decay, (1 + n) / (10 + n))` after n updates (TensorFlow's form). `{ power, gamma }`:
   * `min(decay, 1 − (1 + n / gamma)^−power)` (timm's), in which the first update copies. @default false
   */
  readonly warmup?: boolean | { readonly power?: number; readonly gamma?: number } | undefined;
}

/** A moving average as part of the training state; a type, so that it is a tree of tensors. */
export type EmaState = {
  readonly params: Tensors;
  readonly buffers: Tensors;
  /** `updates`: float32 scalar, ticks so far. */
  readonly counters: Tensors;
};

/** An average that starts at these values; owns its tensors. */
export function initialEma(model: { readonly params: Tensors; readonly buffers: Tensors }): EmaState {
  return { params: copyRecord(model.params), buffers: copyRecord(model.buffers), counters: { updates: tf.scalar(0) } };
}

function copyRecord(tensors: Readonly<Tensors>): Tensors {
  return Object.fromEntries(Object.entries(tensors).map(([name, value]) => [name, tf.clone(value)]));
}

/** Decay of the update after `n` (float32 scalar) earlier ones. */
export function emaDecay(n: Tensor, { decay, warmup = false }: EmaOptions): Tensor {
  if (warmup === false) return tf.scalar(decay);
  return tf.tidy(() => {
    if (warmup === true) return tf.minimum(tf.div(tf.add(n, 1), tf.add(n, 10)), decay);
    const { power = 2 / 3, gamma = 1 } = warmup;
    return tf.minimum(tf.sub(1, tf.pow(tf.add(tf.div(n, gamma), 1), -power)), decay);
  });
}

/**
 * One tick of the average, to be called once per applied update: `e ← e + (1 − d)(x − e)`, so that a frozen parameter's average stays
 * bit-identical. float32 buffers (BatchNorm statistics) are averaged too, as in timm; integer ones are copied. Throws EMA_MISMATCH where
 * a value has no average.
 *
 * @example
 * const ema = updateEma(state.ema, { params, buffers }, { decay: 0.9998, warmup: true });
 */
export function updateEma(
  ema: EmaState,
  model: { readonly params: Tensors; readonly buffers: Tensors },
  options: EmaOptions,
): EmaState {
  return tf.tidy(() => {
    const updates = ema.counters['updates']!;
    const share = tf.sub(1, emaDecay(updates, options));
    const follow = (averages: Readonly<Tensors>, values: Readonly<Tensors>): Tensors => {
      for (const name of Object.keys(values)) {
        if (averages[name] === undefined) throw new AlambicError('EMA_MISMATCH', `there is no average of ${name}`);
      }
      return Object.fromEntries(
        Object.entries(averages).map(([name, average]) => {
          const value = values[name];
          if (value === undefined || value === average) return [name, average];
          if (value.dtype !== 'float32') return [name, value];
          return [name, tf.add(average, tf.mul(tf.sub(value, average), share))];
        }),
      );
    };
    return {
      params: follow(ema.params, model.params),
      buffers: follow(ema.buffers, model.buffers),
      counters: { updates: tf.add(updates, 1) },
    };
  });
}
