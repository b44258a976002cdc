import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Key } from '../../engine/random.ts';
import { AlambicError } from '../../errors.ts';
import type { Shape } from '../../nn/module.ts';
import type { Transform } from '../../plugin-host/contract.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { TOKEN } from '../../plugin-host/tokens.ts';
import { cropAt, cropCenter } from './crop.ts';
import { drawWhole } from './draw.ts';
import { imageShape, sizeSchema, toSize } from './size.ts';

const options = z.strictObject({
  size: sizeSchema.optional().describe('size or [height, width] of the window; default: that of the images'),
  padding: z.int().min(0).default(4).describe('pixels by which the images are enlarged on each side before the cut'),
  border: z.enum(['zero', 'reflect', 'edge']).default('zero').describe('what the padding is filled with'),
});

type Options = z.infer<typeof options>;

/** A window at a random place of the padded image, drawn for each image. In evaluation the centre. */
@injectable()
class RandomCrop implements Transform {
  constructor(@inject(TOKEN.Options) private readonly options: Options) {}

  outputShape(input: Shape): Shape {
    const [height, width, channels] = imageShape(input, 'random-crop');
    const { padding, border } = this.options;
    const [outHeight, outWidth] = toSize(this.options.size ?? [height, width]);
    if (outHeight > height + 2 * padding || outWidth > width + 2 * padding) {
      throw new AlambicError(
        'PRECONDITION',
        `expected a window of random-crop within the padded image ${height + 2 * padding}x${width + 2 * padding}, got ${outHeight}x${outWidth}`,
        { hint: 'Lower `size` or raise `padding`.' },
      );
    }
    if (border === 'reflect' && padding >= Math.min(height, width)) {
      throw new AlambicError(
        'PRECONDITION',
        `expected a reflected padding below ${Math.min(height, width)}, got ${padding}`,
      );
    }
    return [outHeight, outWidth, channels];
  }

  call(images: Tensor, { key, training }: { key: Key; training: boolean }): Tensor {
    const [count, height, width, channels] = images.shape as [number, number, number, number];
    const { padding, border } = this.options;
    const [outHeight, outWidth] = this.outputShape([height, width, channels]) as [number, number, number];
    if (!training) return cropCenter(images, [outHeight, outWidth]);
    return tf.tidy(() => {
      const start = (purpose: string, from: number, to: number) =>
        tf.sub(drawWhole(key, purpose, count, from + 2 * padding - to + 1), padding);
      const top = start('top', height, outHeight);
      const left = start('left', width, outWidth);
      return cropAt(images, top, left, [outHeight, outWidth], border);
    });
  }
}

export default definePlugin({
  name: 'random-crop',
  kind: 'transform',
  apiVersion: 1,
  description: 'Cut a window at a random place out of the padded image.',
  options,
  implementation: RandomCrop,
});
