import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import type { Size } from './size.ts';

export type Interpolation = 'bilinear' | 'bicubic';

/** One box per image, float32 [N] each (or [1] for one that all share), in pixels; edges may lie between pixels. */
export interface Boxes {
  readonly top: Tensor;
  readonly left: Tensor;
  readonly height: Tensor;
  readonly width: Tensor;
}

/** The box of a whole image, shared by all images of a batch. */
export function wholeImage(height: number, width: number): Boxes {
  return { top: tf.tensor1d([0]), left: tf.tensor1d([0]), height: tf.tensor1d([height]), width: tf.tensor1d([width]) };
}

function kernelWeights(distance: Tensor, kernel: Interpolation): Tensor {
  if (kernel === 'bilinear') return tf.relu(tf.sub(1, distance));
  const near = tf.add(tf.mul(tf.square(distance), tf.sub(tf.mul(distance, 1.5), 2.5)), 1);
  const far = tf.add(tf.mul(distance, tf.sub(tf.mul(distance, tf.add(tf.mul(distance, -0.5), 2.5)), 4)), 2);
  const zero = tf.zerosLike(distance);
  return tf.where(tf.less(distance, 1), near, tf.where(tf.less(distance, 2), far, zero));
}

/**
 * Matrices [N,to,from] that take the pixels start … start + extent of a line of `from` pixels to `to` pixels.
 *
 * Half-pixel centres; the kernel widens when shrinking (antialias); weights outside the box are cut off and the rest renormalised: as
 * torchvision's `resize(antialias=True)` of the cropped image (bicubic with a = -0.5). A fixed number of element-wise operations, so
 * the sizes of the boxes may change from step to step inside one recorded step.
 */
export function interpolationMatrix(
  start: Tensor,
  extent: Tensor,
  from: number,
  to: number,
  kernel: Interpolation = 'bilinear',
): Tensor {
  const column = (x: Tensor) => tf.reshape(x, [-1, 1, 1]);
  const begin = column(start);
  const end = tf.add(begin, column(extent));
  const scale = tf.div(column(extent), to);
  const outputs = tf.tensor3d(
    Array.from({ length: to }, (_, i) => i + 0.5),
    [1, to, 1],
  );
  const inputs = tf.tensor3d(
    Array.from({ length: from }, (_, j) => j + 0.5),
    [1, 1, from],
  );
  const centers = tf.add(begin, tf.mul(outputs, scale));
  const distance = tf.div(tf.abs(tf.sub(inputs, centers)), tf.maximum(scale, 1));
  const inside = tf.cast(tf.logicalAnd(tf.greater(inputs, begin), tf.less(inputs, end)), 'float32');
  const weights = tf.mul(kernelWeights(distance, kernel), inside);
  return tf.div(weights, tf.sum(weights, 2, true));
}

/**
 * Cuts a box out of each image [N,H,W,C] and scales it to `size`: two batched matrix products, one for each axis.
 *
 * @example
 * const half = resample(images, wholeImage(32, 32), [16, 16]); // [N,16,16,C]
 */
export function resample(images: Tensor, boxes: Boxes, size: Size, kernel: Interpolation = 'bilinear'): Tensor {
  const [count, height, width, channels] = images.shape as [number, number, number, number];
  const [outHeight, outWidth] = size;
  return tf.tidy(() => {
    const rows = interpolationMatrix(boxes.top, boxes.height, height, outHeight, kernel);
    const columns = interpolationMatrix(boxes.left, boxes.width, width, outWidth, kernel);
    const down = tf.matMul(rows, tf.reshape(images, [count, height, width * channels]));
    const turned = tf.transpose(tf.reshape(down, [count, outHeight, width, channels]), [0, 2, 1, 3]);
    const across = tf.matMul(columns, tf.reshape(turned, [count, width, outHeight * channels]));
    return tf.transpose(tf.reshape(across, [count, outWidth, outHeight, channels]), [0, 2, 1, 3]);
  });
}
