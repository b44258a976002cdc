import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { AlambicError } from '../../errors.ts';
import { engine } from '../engine.ts';
import type { Attr } from '../program/program.ts';
import { deriveKey, type Key, streamKey } from '../random.ts';
import { DTYPE } from '../tensorflow/dtypes.ts';
import { differentiable } from './differentiable.ts';
import { attr, runOp } from './execute.ts';

/** Philox, by its number in TensorFlow's `Algorithm`. */
const PHILOX = 1;

/**
 * Runs a StatelessRandom*V2 op. Key and counter are uint64, a type tfjs does not know, so this works on the binding's ids: only the
 * result becomes a tfjs tensor. The step fills the counter's upper half; the op itself counts in the lower one.
 */
function runRandom(
  op: string,
  key: Key,
  shape: readonly number[],
  attrs: readonly Attr[],
  extra: readonly number[] = [],
): Tensor {
  const { binding, backend } = engine();
  const made: number[] = [];
  const make = (dims: number[], dtype: number, values: Int32Array | BigInt64Array | Float32Array) => {
    const id = binding.createTensor(dims, dtype, values);
    made.push(id);
    return id;
  };
  const run = (name: string, opAttrs: readonly Attr[], inputs: readonly number[]) => {
    const id = binding.executeOp(name, opAttrs, inputs, 1)[0]!.id;
    made.push(id);
    return id;
  };
  try {
    const words = (value: bigint) => BigInt64Array.of(BigInt.asIntN(64, value));
    let step: number;
    if (typeof key.step === 'number') step = make([1], DTYPE.uint64, words(BigInt(key.step)));
    else {
      if (key.step.dtype !== 'int32')
        throw new AlambicError('RANDOM_STEP', `expected an int32 step, got ${key.step.dtype}`);
      const flat = run(
        'Reshape',
        [attr.type('T', DTYPE.int32), attr.type('Tshape', DTYPE.int32)],
        [backend.getInputTensorIds([key.step])[0]!, make([1], DTYPE.int32, Int32Array.of(1))],
      );
      step = run('Cast', [attr.type('SrcT', DTYPE.int32), attr.type('DstT', DTYPE.uint64)], [flat]);
    }
    const counter = run(
      'ConcatV2',
      [attr.int('N', 2), attr.type('T', DTYPE.uint64), attr.type('Tidx', DTYPE.int32)],
      [make([1], DTYPE.uint64, words(0n)), step, make([], DTYPE.int32, Int32Array.of(0))],
    );
    const inputs = [
      make([shape.length], DTYPE.int32, Int32Array.from(shape)),
      make([1], DTYPE.uint64, words(streamKey(key))),
      counter,
      make([], DTYPE.int32, Int32Array.of(PHILOX)),
      ...extra.map((n) => make([], DTYPE.int32, Int32Array.of(n))),
    ];
    const [result] = binding.executeOp(op, [...attrs, attr.type('Tshape', DTYPE.int32)], inputs, 1);
    return backend.createOutputTensor(result!);
  } finally {
    for (const id of made) binding.deleteTensor(id);
  }
}

/**
 * Uniform float32 numbers in [0, 1) in steps of 2^-23, made of the generator's bits here: TensorFlow's own kernel takes the lower
 * bits of each word and XLA the upper ones, so their floats differ while their integers agree.
 */
function unitUniform(key: Key, shape: readonly number[]): Tensor {
  const bits = runRandom('StatelessRandomUniformFullIntV2', key, shape, [attr.type('dtype', DTYPE.int32)]);
  const mantissa = runOp('BitwiseAnd', [attr.type('T', DTYPE.int32)], [bits, tf.scalar(0x7f_ff_ff, 'int32')]);
  return tf.mul(tf.cast(mantissa, 'float32'), 2 ** -23);
}

/**
 * Uniform float32 numbers in [low, high), a function of the key alone: the same eager, recorded, in XLA and after a resume.
 *
 * @example
 * const noise = randomUniform(scope.random('noise'), [8, 4], -1, 1);
 */
export function randomUniform(key: Key, shape: readonly number[], low = 0, high = 1): Tensor {
  return tf.tidy(() => {
    const unit = unitUniform(key, shape);
    return low === 0 && high === 1 ? unit : tf.add(tf.mul(unit, high - low), low);
  });
}

/** Normal float32 numbers, by Box and Muller's transform of two uniform draws. */
export function randomNormal(key: Key, shape: readonly number[], mean = 0, std = 1): Tensor {
  return tf.tidy(() => {
    // 1 - u lies in (0, 1]: its logarithm is finite.
    const radius = tf.sqrt(tf.mul(tf.log(tf.sub(1, unitUniform(deriveKey(key, 'radius'), shape))), -2));
    const angle = tf.mul(unitUniform(deriveKey(key, 'angle'), shape), 2 * Math.PI);
    const unit = tf.mul(radius, tf.cos(angle));
    return mean === 0 && std === 1 ? unit : tf.add(tf.mul(unit, std), mean);
  });
}

/** erf(sqrt(2)): the share of a normal distribution within two standard deviations. */
const WITHIN_TWO = 0.954_499_736_103_641_6;

/** Normal float32 numbers within two standard deviations of the mean, by the inverse of the distribution function. */
export function truncatedNormal(key: Key, shape: readonly number[], mean = 0, std = 1): Tensor {
  return tf.tidy(() => {
    const p = tf.mul(tf.sub(tf.mul(unitUniform(key, shape), 2), 1), WITHIN_TWO);
    const unit = tf.mul(runOp('Erfinv', [attr.type('T', DTYPE.float32)], [p]), Math.SQRT2);
    return mean === 0 && std === 1 ? unit : tf.add(tf.mul(unit, std), mean);
  });
}

/** Uniform int32 numbers in low..high-1. */
export function randomInt(key: Key, shape: readonly number[], low: number, high: number): Tensor {
  if (!(Number.isInteger(low) && Number.isInteger(high) && high > low)) {
    throw new AlambicError('RANDOM_RANGE', `expected whole numbers low < high, got ${low} and ${high}`);
  }
  return runRandom('StatelessRandomUniformIntV2', key, shape, [attr.type('dtype', DTYPE.int32)], [low, high]);
}

/** 1 with probability p, else 0, as float32. */
export function bernoulli(key: Key, shape: readonly number[], p: number): Tensor {
  return tf.tidy(() => tf.cast(tf.less(randomUniform(key, shape), p), 'float32'));
}

/** Sets a share `rate` of x to 0 and scales the rest by 1/(1-rate) (arXiv 1207.0580). Gradient: the same mask. */
export function dropout(x: Tensor, rate: number, key: Key): Tensor {
  if (!(rate >= 0 && rate < 1))
    throw new AlambicError('KERNEL_OPTION', `expected a dropout rate in [0,1), got ${rate}`);
  if (rate === 0) return x;
  const [y] = differentiable(
    { x },
    () => {
      const mask = tf.mul(bernoulli(key, x.shape, 1 - rate), 1 / (1 - rate));
      return { results: [tf.mul(x, mask)], saved: [mask] };
    },
    (dy, [mask]) => ({ x: () => tf.mul(dy, mask!) }),
  );
  return y!;
}
