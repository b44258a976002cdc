import * as tf from '@tensorflow/tfjs-core';
import { randomNormal, randomUniform, truncatedNormal as truncated } from '../engine/kernels/index.ts';
import { AlambicError } from '../errors.ts';
import type { Init, Shape } from './module.ts';

/** Which fan the variance is kept for: of the forward pass (`in`) or of the backward pass (`out`). */
export type FanMode = 'in' | 'out';

export interface FanOptions {
  /** @default 'in' */
  readonly mode?: FanMode;
  /** Kernel [kh,kw,C,1] with one filter per channel, for which both fans are kh*kw. @default false */
  readonly depthwise?: boolean;
}

/**
 * Fans of a kernel [kh,kw,I,O] or [I,O]: taps times inputs, taps times outputs. For a depthwise kernel both are kh*kw, as in timm
 * (torch alone takes kh*kw*C as its fan out, which makes the values C times too small in variance).
 */
export function fansOf(shape: Shape, depthwise = false): { in: number; out: number } {
  if (shape.length !== 2 && shape.length !== 4) {
    throw new AlambicError('INIT_SHAPE', `expected a kernel [kh,kw,in,out] or [in,out], got [${shape}]`, {
      hint: 'Use zeros, ones, constant, normal or uniform for parameters that are not kernels.',
    });
  }
  const taps = shape.length === 4 ? shape[0]! * shape[1]! : 1;
  if (depthwise) return { in: taps, out: taps };
  return { in: taps * shape.at(-2)!, out: taps * shape.at(-1)! };
}

/** All zeros. */
export const zeros = (): Init => (shape) => tf.zeros([...shape]);

/** All ones. */
export const ones = (): Init => (shape) => tf.ones([...shape]);

/** All `value`. */
export const constant =
  (value: number): Init =>
  (shape) =>
    tf.fill([...shape], value);

/** Normal with mean 0. */
export const normal =
  (std: number, mean = 0): Init =>
  (shape, key) =>
    randomNormal(key, shape, mean, std);

/** Uniform in [low, high). */
export const uniform =
  (low: number, high: number): Init =>
  (shape, key) =>
    randomUniform(key, shape, low, high);

/** Normal, cut at two standard deviations; `std` is that of the normal before the cut, as in TensorFlow and timm's `trunc_normal_tf_`. */
export const truncatedNormal =
  (std: number, mean = 0): Init =>
  (shape, key) =>
    truncated(key, shape, mean, std);

/** He's normal for ReLU networks: std = sqrt(2 / fan) (arXiv 1502.01852); torch's `kaiming_normal_`. */
export const kaimingNormal =
  ({ mode = 'in', depthwise = false, gain = Math.SQRT2 }: FanOptions & { readonly gain?: number } = {}): Init =>
  (shape, key) =>
    randomNormal(key, shape, 0, gain / Math.sqrt(fansOf(shape, depthwise)[mode]));

/** He's uniform: bound = gain * sqrt(3 / fan) (arXiv 1502.01852); torch's `kaiming_uniform_`, gain sqrt(2) for ReLU. */
export const kaimingUniform =
  ({ mode = 'in', depthwise = false, gain = Math.SQRT2 }: FanOptions & { readonly gain?: number } = {}): Init =>
  (shape, key) => {
    const bound = gain * Math.sqrt(3 / fansOf(shape, depthwise)[mode]);
    return randomUniform(key, shape, -bound, bound);
  };

/** Glorot's normal: std = sqrt(2 / (fan in + fan out)); torch's `xavier_normal_`. */
export const xavierNormal =
  (gain = 1): Init =>
  (shape, key) => {
    const fans = fansOf(shape);
    return randomNormal(key, shape, 0, gain * Math.sqrt(2 / (fans.in + fans.out)));
  };

/** Glorot's uniform: bound = sqrt(6 / (fan in + fan out)); torch's `xavier_uniform_`. */
export const xavierUniform =
  (gain = 1): Init =>
  (shape, key) => {
    const fans = fansOf(shape);
    const bound = gain * Math.sqrt(6 / (fans.in + fans.out));
    return randomUniform(key, shape, -bound, bound);
  };

/** Uniform within 1/sqrt(fan): what torch gives convolutions and linear layers where nothing else is said (mode `in`). */
export const fanUniform = ({ mode = 'in', depthwise = false }: FanOptions = {}): Init =>
  kaimingUniform({ mode, depthwise, gain: 1 / Math.sqrt(3) });
