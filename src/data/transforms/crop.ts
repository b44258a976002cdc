import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { gather } from '../../engine/kernels/index.ts';
import type { Size } from './size.ts';

/** What lies outside of an image: zeros, the image mirrored at its border pixel, or the border pixel itself. */
export type Border = 'zero' | 'reflect' | 'edge';

interface Lines {
  /** int32 [N·to]: row of the flattened images for each output line. */
  readonly indices: Tensor;
  /** float32 [N,to]: 0 where the line lies outside of the image. */
  readonly inside: Tensor;
}

/** Input lines start … start + to - 1 of each image, brought back into 0 … from - 1. */
function linesOf(start: Tensor, from: number, to: number, border: Border): Lines {
  const count = start.shape[0]!;
  const wanted = tf.add(
    tf.reshape(start, [count, 1]),
    tf.tensor2d(
      Array.from({ length: to }, (_, i) => i),
      [1, to],
    ),
  );
  const last = from - 1;
  // Mirrored once at each end: -1 becomes 1, and from becomes from - 2.
  const mirrored = border === 'reflect' ? tf.sub(last, tf.abs(tf.sub(last, tf.abs(wanted)))) : wanted;
  const kept = tf.clipByValue(mirrored, 0, last);
  const first = tf.tensor2d(
    Array.from({ length: count }, (_, n) => n * from),
    [count, 1],
  );
  return {
    indices: tf.cast(tf.reshape(tf.add(kept, first), [count * to]), 'int32'),
    inside: tf.cast(tf.equal(kept, wanted), 'float32'),
  };
}

/**
 * Cuts a window of `size` out of each image [N,H,W,C] at whole pixels; what it holds beyond the image follows `border`. Exact: pixels
 * are copied, never interpolated. `reflect` reaches at most H - 1 (W - 1) pixels beyond.
 *
 * @example
 * // torchvision's crop(pad(x, 4), top, left, 32, 32)
 * cropAt(images, tf.sub(top, 4), tf.sub(left, 4), [32, 32], 'zero');
 */
export function cropAt(images: Tensor, top: Tensor, left: Tensor, size: Size, border: Border = 'zero'): Tensor {
  const [count, height, width, channels] = images.shape as [number, number, number, number];
  const [outHeight, outWidth] = size;
  return tf.tidy(() => {
    const rows = linesOf(top, height, outHeight, border);
    const columns = linesOf(left, width, outWidth, border);
    const down = gather(tf.reshape(images, [count * height, width * channels]), rows.indices);
    const turned = tf.transpose(tf.reshape(down, [count, outHeight, width, channels]), [0, 2, 1, 3]);
    const across = gather(tf.reshape(turned, [count * width, outHeight * channels]), columns.indices);
    const cut = tf.transpose(tf.reshape(across, [count, outWidth, outHeight, channels]), [0, 2, 1, 3]);
    if (border !== 'zero') return cut;
    const inside = tf.mul(
      tf.reshape(rows.inside, [count, outHeight, 1, 1]),
      tf.reshape(columns.inside, [count, 1, outWidth, 1]),
    );
    return tf.mul(cut, inside);
  });
}

/** Cuts the centre out of images [N,H,W,C]; smaller images are padded with zeros. The same places as torchvision's `center_crop`. */
export function cropCenter(images: Tensor, [outHeight, outWidth]: Size): Tensor {
  const [, height, width] = images.shape as [number, number, number, number];
  const padding = (from: number, to: number): [number, number] => {
    const missing = Math.max(0, to - from);
    return [Math.floor(missing / 2), Math.ceil(missing / 2)];
  };
  const start = (from: number, to: number) => roundHalfEven((Math.max(from, to) - to) / 2);
  return tf.tidy(() => {
    const pads = [[0, 0], padding(height, outHeight), padding(width, outWidth), [0, 0]] as [number, number][];
    const padded = pads.some(([a, b]) => a + b > 0) ? tf.pad(images, pads) : images;
    return tf.slice(padded, [0, start(height, outHeight), start(width, outWidth), 0], [-1, outHeight, outWidth, -1]);
  });
}

/** As Python rounds. */
function roundHalfEven(x: number): number {
  return x % 1 === 0.5 ? 2 * Math.round(x / 2) : Math.round(x);
}
