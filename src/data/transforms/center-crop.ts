import type { Tensor } from '@tensorflow/tfjs-core';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Shape } from '../../nn/module.ts';
import type { Transform } from '../../plugin-host/contract.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { TOKEN } from '../../plugin-host/tokens.ts';
import { cropCenter } from './crop.ts';
import { imageShape, sizeSchema, toSize } from './size.ts';

const options = z.strictObject({
  size: sizeSchema.describe('size or [height, width] of the window; smaller images are padded with zeros'),
});

type Options = z.infer<typeof options>;

/** The centre of every image, in training and evaluation. */
@injectable()
class CenterCrop implements Transform {
  constructor(@inject(TOKEN.Options) private readonly options: Options) {}

  outputShape(input: Shape): Shape {
    const [, , channels] = imageShape(input, 'center-crop');
    return [...toSize(this.options.size), channels];
  }

  call(images: Tensor): Tensor {
    return cropCenter(images, toSize(this.options.size));
  }
}

export default definePlugin({
  name: 'center-crop',
  kind: 'transform',
  apiVersion: 1,
  description: 'Cut out the centre of every image.',
  options,
  implementation: CenterCrop,
});
