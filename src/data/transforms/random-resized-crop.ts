import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import { randomUniform } from '../../engine/kernels/index.ts';
import { deriveKey, type Key } from '../../engine/random.ts';
import type { Shape } from '../../nn/module.ts';
import type { Transform } from '../../plugin-host/contract.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { TOKEN } from '../../plugin-host/tokens.ts';
import { drawWhole } from './draw.ts';
import { type Boxes, resample, wholeImage } from './resample.ts';
import { imageShape, type Size, sizeSchema, toSize } from './size.ts';

const pair = z.tuple([z.number().positive(), z.number().positive()]);
const options = z.strictObject({
  size: sizeSchema.optional().describe('size or [height, width] of the result; default: that of the images'),
  scale: pair.default([0.08, 1]).describe('smallest and largest share of the area that is cut out'),
  ratio: pair.default([3 / 4, 4 / 3]).describe('smallest and largest width : height of what is cut out'),
  interpolation: z.enum(['bilinear', 'bicubic']).default('bilinear').describe('with antialias'),
});

type Options = z.infer<typeof options>;

/** Draws before the whole image is taken, as in torchvision. */
const TRIES = 10;

/**
 * Random boxes (whole pixels) of the Inception kind (arXiv 1409.4842) for `count` images of one size: torchvision's
 * `RandomResizedCrop.get_params`, all tries drawn at once and the first that fits taken.
 */
export function drawBoxes(
  key: Key,
  count: number,
  [height, width]: Size,
  { scale, ratio }: Pick<Options, 'scale' | 'ratio'>,
): Boxes {
  const tries = (purpose: string, low: number, high: number) =>
    randomUniform(deriveKey(key, purpose), [count, TRIES], low, high);
  const area = tf.mul(tries('scale', ...scale), height * width);
  const aspect = tf.exp(tries('ratio', Math.log(ratio[0]), Math.log(ratio[1])));
  const widths = tf.round(tf.sqrt(tf.mul(area, aspect)));
  const heights = tf.round(tf.sqrt(tf.div(area, aspect)));
  const fits = (sides: Tensor, limit: number) => tf.logicalAnd(tf.greater(sides, 0), tf.lessEqual(sides, limit));
  const valid = tf.cast(tf.logicalAnd(fits(widths, width), fits(heights, height)), 'float32');
  const first = tf.mul(valid, tf.cast(tf.equal(tf.cumsum(valid, 1), 1), 'float32'));
  const none = tf.sub(1, tf.sum(first, 1));
  const [wholeHeight, wholeWidth] = fallback(height, width, ratio);
  const pick = (sides: Tensor, whole: number) => tf.add(tf.sum(tf.mul(sides, first), 1), tf.mul(none, whole));
  const boxHeight = pick(heights, wholeHeight);
  const boxWidth = pick(widths, wholeWidth);
  const place = (purpose: string, limit: number, side: Tensor, whole: number) =>
    tf.add(
      tf.mul(tf.sub(1, none), drawWhole(key, purpose, count, tf.sub(limit + 1, side))),
      tf.mul(none, Math.floor((limit - whole) / 2)),
    );
  return {
    top: place('top', height, boxHeight, wholeHeight),
    left: place('left', width, boxWidth, wholeWidth),
    height: boxHeight,
    width: boxWidth,
  };
}

/** The largest centred box of an allowed ratio. */
function fallback(height: number, width: number, ratio: readonly [number, number]): Size {
  const own = width / height;
  if (own < ratio[0]) return [Math.round(width / ratio[0]), width];
  if (own > ratio[1]) return [height, Math.round(height * ratio[1])];
  return [height, width];
}

/** A box of random area, ratio and place, scaled to the size, drawn for each image. In evaluation the whole image, scaled. */
@injectable()
class RandomResizedCrop implements Transform {
  constructor(@inject(TOKEN.Options) private readonly options: Options) {}

  outputShape(input: Shape): Shape {
    const [height, width, channels] = imageShape(input, 'random-resized-crop');
    return [...toSize(this.options.size ?? [height, width]), channels];
  }

  call(images: Tensor, { key, training }: { key: Key; training: boolean }): Tensor {
    const [count, height, width] = images.shape as [number, number, number, number];
    const size = toSize(this.options.size ?? [height, width]);
    if (!training && size[0] === height && size[1] === width) return images;
    return tf.tidy(() => {
      const boxes = training ? drawBoxes(key, count, [height, width], this.options) : wholeImage(height, width);
      return resample(images, boxes, size, this.options.interpolation);
    });
  }
}

export default definePlugin({
  name: 'random-resized-crop',
  kind: 'transform',
  apiVersion: 1,
  description: 'Cut out a box of random area, ratio and place, and scale it to the size.',
  options,
  implementation: RandomResizedCrop,
});
