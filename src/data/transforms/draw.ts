import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { randomUniform } from '../../engine/kernels/index.ts';
import { deriveKey, type Key } from '../../engine/random.ts';

/** float32 [N], uniform in [low, high): one draw per image, a function of (key, purpose). */
export function drawUniform(key: Key, purpose: string, count: number, low = 0, high = 1): Tensor {
  return randomUniform(deriveKey(key, purpose), [count], low, high);
}

/** bool [N], true with probability p. */
export function drawChance(key: Key, purpose: string, count: number, p: number): Tensor {
  return tf.less(drawUniform(key, purpose, count), p);
}

/** float32 [N] whole numbers, uniform in 0 … ways - 1, where `ways` (at least 1) may differ from image to image. */
export function drawWhole(key: Key, purpose: string, count: number, ways: Tensor | number): Tensor {
  return tf.floor(tf.mul(drawUniform(key, purpose, count), ways));
}

/** A where the condition [N] holds, else b, image by image: exact. */
export function chooseByImage(condition: Tensor, a: Tensor, b: Tensor): Tensor {
  return tf.where(tf.reshape(condition, [-1, ...a.shape.slice(1).map(() => 1)]), a, b);
}
