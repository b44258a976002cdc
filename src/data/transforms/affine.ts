import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import { gather } from '../../engine/kernels/index.ts';
import type { Key } from '../../engine/random.ts';
import type { Shape } from '../../nn/module.ts';
import type { Transform } from '../../plugin-host/contract.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { TOKEN } from '../../plugin-host/tokens.ts';
import { drawUniform } from './draw.ts';
import { imageShape } from './size.ts';

const options = z.strictObject({
  degrees: z.number().min(0).max(180).default(10).describe('largest rotation either way, in degrees'),
  translate: z.number().min(0).max(1).default(0.1).describe('largest shift either way, as a share of each side'),
  scale: z
    .tuple([z.number().positive(), z.number().positive()])
    .default([0.9, 1.1])
    .describe('smallest and largest scale'),
  shear: z.number().min(0).max(89).default(0).describe('largest shear parallel to the x axis either way, in degrees'),
  fill: z.number().default(0).describe('value outside of the image'),
});

type Options = z.infer<typeof options>;

/** What an affine change does to each image, float32 [N]; the centre of the image stays in place but for the shift. */
export interface AffineParameters {
  /** Degrees, clockwise on the screen. */
  readonly angle: Tensor;
  /** Pixels to the right and down. */
  readonly shiftX: Tensor;
  readonly shiftY: Tensor;
  readonly scale: Tensor;
  /** Degrees. */
  readonly shearX: Tensor;
}

/** Largest whole number up to which float32 has every one. */
const EXACT = 2 ** 24;

/**
 * Rotated, scaled, sheared and shifted images [N,H,W,C], bilinear, `fill` outside: torchvision's `affine(interpolation=BILINEAR)`. (With
 * a `fill` of its own, torchvision weighs the pixels at the border by their share inside twice; here that is once.)
 */
export function affineImages(images: Tensor, parameters: AffineParameters, fill = 0): Tensor {
  return tf.tidy(() => {
    const { x, y } = sourcePoints(images.shape, parameters);
    const background = fill === 0 ? images : tf.sub(images, fill);
    const left = tf.floor(x);
    const top = tf.floor(y);
    const right = tf.sub(x, left);
    const below = tf.sub(y, top);
    const corner = (dy: number, dx: number, weightY: Tensor, weightX: Tensor) =>
      tf.mul(pixelsAt(background, tf.add(top, dy), tf.add(left, dx)), tf.expandDims(tf.mul(weightY, weightX), 3));
    const sum = tf.addN([
      corner(0, 0, tf.sub(1, below), tf.sub(1, right)),
      corner(0, 1, tf.sub(1, below), right),
      corner(1, 0, below, tf.sub(1, right)),
      corner(1, 1, below, right),
    ]);
    return fill === 0 ? sum : tf.add(sum, fill);
  });
}

/** Where in the input each output pixel comes from, float32 [N,H,W] in pixels: the inverse change about the centre. */
function sourcePoints(shape: readonly number[], parameters: AffineParameters): { x: Tensor; y: Tensor } {
  const [, height, width] = shape as [number, number, number, number];
  const column = (value: Tensor) => tf.reshape(value, [-1, 1, 1]);
  const radians = (degrees: Tensor) => tf.mul(column(degrees), Math.PI / 180);
  const angle = radians(parameters.angle);
  const [cos, sin] = [tf.cos(angle), tf.sin(angle)];
  const tangent = tf.tan(radians(parameters.shearX));
  const scale = column(parameters.scale);
  const dx = tf.sub(centred(width, [1, 1, width]), column(parameters.shiftX));
  const dy = tf.sub(centred(height, [1, height, 1]), column(parameters.shiftY));
  // The inverse of rotation x shear, [[a, b], [c, d]] = [[cos, -(cos·tan + sin)], [sin, cos - sin·tan]], has determinant 1.
  const a = cos;
  const b = tf.neg(tf.add(tf.mul(cos, tangent), sin));
  const c = sin;
  const d = tf.sub(cos, tf.mul(sin, tangent));
  const x = tf.div(tf.sub(tf.mul(d, dx), tf.mul(b, dy)), scale);
  const y = tf.div(tf.sub(tf.mul(a, dy), tf.mul(c, dx)), scale);
  return { x: tf.add(x, (width - 1) / 2), y: tf.add(y, (height - 1) / 2) };
}

function centred(length: number, shape: [number, number, number]): Tensor {
  return tf.tensor3d(
    Array.from({ length }, (_, i) => i - (length - 1) / 2),
    shape,
  );
}

/** Pixels [N,H,W,C] at whole places y, x [N,H,W]; zeros outside. */
function pixelsAt(images: Tensor, y: Tensor, x: Tensor): Tensor {
  const [count, height, width, channels] = images.shape as [number, number, number, number];
  const keptY = tf.clipByValue(y, 0, height - 1);
  const keptX = tf.clipByValue(x, 0, width - 1);
  const inside = tf.cast(tf.logicalAnd(tf.equal(keptY, y), tf.equal(keptX, x)), 'float32');
  const within = tf.add(tf.mul(keptY, width), keptX);
  const firsts = Array.from({ length: count }, (_, n) => n * height * width);
  // In float32 where it is exact: TensorFlow adds int32 on the host, and a GPU would have to wait for it.
  const indices =
    count * height * width < EXACT
      ? tf.cast(tf.add(within, tf.tensor3d(firsts, [count, 1, 1])), 'int32')
      : tf.add(tf.cast(within, 'int32'), tf.tensor3d(firsts, [count, 1, 1], 'int32'));
  const flat = gather(tf.reshape(images, [count * height * width, channels]), tf.reshape(indices, [-1]));
  return tf.mul(tf.reshape(flat, images.shape), tf.expandDims(inside, 3));
}

/** Small random rotation, shift, scale and shear, drawn for each image. In evaluation nothing. */
@injectable()
class Affine implements Transform {
  constructor(@inject(TOKEN.Options) private readonly options: Options) {}

  outputShape(input: Shape): Shape {
    return imageShape(input, 'affine');
  }

  call(images: Tensor, { key, training }: { key: Key; training: boolean }): Tensor {
    if (!training) return images;
    const [count, height, width] = images.shape as [number, number, number, number];
    const { degrees, translate, scale, shear, fill } = this.options;
    return tf.tidy(() => {
      const draw = (purpose: string, low: number, high: number) => drawUniform(key, purpose, count, low, high);
      const parameters: AffineParameters = {
        angle: draw('angle', -degrees, degrees),
        shiftX: tf.round(draw('shift-x', -translate * width, translate * width)),
        shiftY: tf.round(draw('shift-y', -translate * height, translate * height)),
        scale: draw('scale', ...scale),
        shearX: draw('shear', -shear, shear),
      };
      return affineImages(images, parameters, fill);
    });
  }
}

export default definePlugin({
  name: 'affine',
  kind: 'transform',
  apiVersion: 1,
  description: 'Rotate, shift, scale and shear each image a little.',
  options,
  implementation: Affine,
});
