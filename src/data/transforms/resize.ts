import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Shape } from '../../nn/module.ts';
import type { Transform } from '../../plugin-host/contract.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { TOKEN } from '../../plugin-host/tokens.ts';
import { resample, wholeImage } from './resample.ts';
import { imageShape, sizeSchema, toSize } from './size.ts';

const options = z.strictObject({
  size: sizeSchema.describe('size or [height, width] of the result; the aspect is not kept'),
  interpolation: z.enum(['bilinear', 'bicubic']).default('bilinear').describe('with antialias'),
});

type Options = z.infer<typeof options>;

/** Every image scaled to one size, in training and evaluation. */
@injectable()
class Resize implements Transform {
  constructor(@inject(TOKEN.Options) private readonly options: Options) {}

  outputShape(input: Shape): Shape {
    const [, , channels] = imageShape(input, 'resize');
    return [...toSize(this.options.size), channels];
  }

  call(images: Tensor): Tensor {
    const [, height, width] = images.shape as [number, number, number, number];
    const size = toSize(this.options.size);
    if (size[0] === height && size[1] === width) return images;
    return tf.tidy(() => resample(images, wholeImage(height, width), size, this.options.interpolation));
  }
}

export default definePlugin({
  name: 'resize',
  kind: 'transform',
  apiVersion: 1,
  description: 'Scale every image to one size.',
  options,
  implementation: Resize,
});
