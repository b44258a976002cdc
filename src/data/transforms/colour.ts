import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';

/**
 * Colour operations on images [N,H,W,C] in 0..1, one factor [N] per image; the numbers of torchvision's functions of the same names.
 */

const perImage = (factor: Tensor) => tf.reshape(factor, [-1, 1, 1, 1]);

function blend(images: Tensor, other: Tensor, factor: Tensor): Tensor {
  const share = perImage(factor);
  return tf.clipByValue(tf.add(tf.mul(images, share), tf.mul(other, tf.sub(1, share))), 0, 1);
}

/** Grey value [N,H,W,1]: 0.2989 R + 0.587 G + 0.114 B; grey images unchanged. */
export function greyOf(images: Tensor): Tensor {
  if (images.shape[3] === 1) return images;
  return tf.sum(tf.mul(images, tf.tensor1d([0.2989, 0.587, 0.114])), 3, true);
}

/** Factor 0 gives black, 1 the image, 2 twice the light. */
export function adjustBrightness(images: Tensor, factor: Tensor): Tensor {
  return tf.clipByValue(tf.mul(images, perImage(factor)), 0, 1);
}

/** Factor 0 gives the mean grey of the image, 1 the image. */
export function adjustContrast(images: Tensor, factor: Tensor): Tensor {
  return blend(images, tf.mean(greyOf(images), [1, 2, 3], true), factor);
}

/** Factor 0 gives the grey image, 1 the image. */
export function adjustSaturation(images: Tensor, factor: Tensor): Tensor {
  return images.shape[3] === 1 ? images : blend(images, greyOf(images), factor);
}

/** Turns the hue by a share of the full circle, -0.5..0.5; grey images unchanged. */
export function adjustHue(images: Tensor, shift: Tensor): Tensor {
  if (images.shape[3] === 1) return images;
  const [r, g, b] = tf.split(images, 3, 3) as [Tensor, Tensor, Tensor];
  const most = tf.max(images, 3, true);
  const range = tf.sub(most, tf.min(images, 3, true));
  const one = tf.onesLike(range);
  const grey = tf.equal(range, 0);
  const divisor = tf.where(grey, one, range);
  const saturation = tf.div(range, tf.where(grey, one, most));
  const sector = (from: Tensor, to: Tensor, offset: number) => tf.add(tf.div(tf.sub(from, to), divisor), offset);
  const hue6 = tf.where(
    tf.equal(most, r),
    sector(g, b, 0),
    tf.where(tf.equal(most, g), sector(b, r, 2), sector(r, g, 4)),
  );
  const turned = tf.add(tf.div(hue6, 6), perImage(shift));
  const hue = tf.mul(tf.sub(turned, tf.floor(turned)), 6);
  // Each channel is v - v·s·max(0, min(k, 4 - k, 1)) with k = (n + hue) mod 6, n = 5, 3, 1 for red, green, blue.
  const channel = (n: number) => {
    const shifted = tf.add(hue, n);
    const k = tf.sub(shifted, tf.mul(tf.floor(tf.div(shifted, 6)), 6));
    const fall = tf.relu(tf.minimum(tf.minimum(k, tf.sub(4, k)), 1));
    return tf.sub(most, tf.mul(tf.mul(most, saturation), fall));
  };
  return tf.clipByValue(tf.concat([channel(5), channel(3), channel(1)], 3), 0, 1);
}
