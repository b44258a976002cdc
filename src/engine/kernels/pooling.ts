import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { AlambicError } from '../../errors.ts';
import { differentiable } from './differentiable.ts';
import { attr, runOp, T_FLOAT } from './execute.ts';
import { type Padding, type Pair, toPair } from './padding.ts';

export interface PoolOptions {
  readonly size: Pair;
  /** @default size */
  readonly stride?: Pair;
  /** @default 'valid' */
  readonly padding?: Padding;
}

function checkRank(name: string, x: Tensor): void {
  if (x.rank !== 4) throw new AlambicError('KERNEL_SHAPE', `${name} expects x [N,H,W,C], got [${x.shape}]`);
}

function windows({ size, stride }: PoolOptions) {
  const [kh, kw] = toPair(size, 'size');
  const [sh, sw] = toPair(stride ?? size, 'stride');
  return [
    T_FLOAT,
    attr.int('ksize', [1, kh, kw, 1]),
    attr.int('strides', [1, sh, sw, 1]),
    attr.text('data_format', 'NHWC'),
  ];
}

const poolPadding = (padding: Padding) => attr.text('padding', padding === 'same' ? 'SAME' : 'VALID');

/** Zeros (or another number) around height and width. */
export function pad2d(x: Tensor, padding: Padding, value = 0): Tensor {
  if (padding === 'same' || padding === 'valid' || padding === 0) return x;
  const sides: [number, number][] =
    typeof padding === 'number'
      ? [
          [padding, padding],
          [padding, padding],
        ]
      : [[...padding[0]], [...padding[1]]];
  return tf.pad(x, [[0, 0], ...sides, [0, 0]], value);
}

/** Largest value of each window of x [N,H,W,C]. Padded places never win, as in torch. */
export function maxPool(x: Tensor, options: PoolOptions): Tensor {
  checkRank('maxPool', x);
  const { padding = 'valid' } = options;
  // Padded by hand with -inf: XLA has no pooling with explicit padding.
  const padded = pad2d(x, padding, Number.NEGATIVE_INFINITY);
  const attrs = [...windows(options), poolPadding(padding)];
  const [y] = differentiable(
    { padded },
    () => {
      const result = runOp('MaxPool', attrs, [padded]);
      return { results: [result], saved: [padded, result] };
    },
    (dy, [savedX, savedY]) => ({ padded: () => runOp('MaxPoolGrad', attrs, [savedX!, savedY!, dy]) }),
  );
  return y!;
}

/**
 * Mean of each window of x [N,H,W,C]. With numeric padding the padded zeros count, as torch's default `count_include_pad=True`;
 * with `same` they do not, as in TensorFlow.
 */
export function averagePool(x: Tensor, options: PoolOptions): Tensor {
  checkRank('averagePool', x);
  const { padding = 'valid' } = options;
  const padded = pad2d(x, padding);
  const attrs = [...windows(options), poolPadding(padding)];
  const [y] = differentiable(
    { padded },
    () => ({ results: [runOp('AvgPool', attrs, [padded])], saved: [] }),
    (dy) => ({ padded: () => runOp('AvgPoolGrad', attrs, [tf.tensor1d(padded.shape, 'int32'), dy]) }),
  );
  return y!;
}

/** Mean over height and width: x [N,H,W,C] -> [N,C]. */
export function globalAveragePool(x: Tensor): Tensor {
  checkRank('globalAveragePool', x);
  return tf.mean(x, [1, 2]);
}
