import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Key } from '../../engine/random.ts';
import type { Shape } from '../../nn/module.ts';
import type { Transform } from '../../plugin-host/contract.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { TOKEN } from '../../plugin-host/tokens.ts';
import { greyOf } from './colour.ts';
import { chooseByImage, drawChance } from './draw.ts';
import { requireColours } from './size.ts';

const options = z.strictObject({
  p: z.number().min(0).max(1).default(0.1).describe('probability, 0..1'),
});

type Options = z.infer<typeof options>;

/** Takes the colour from each image with probability p; three equal channels remain. In evaluation nothing. */
@injectable()
class Greyscale implements Transform {
  constructor(@inject(TOKEN.Options) private readonly options: Options) {}

  outputShape(input: Shape): Shape {
    return requireColours(input, 'greyscale', [1, 3]);
  }

  call(images: Tensor, { key, training }: { key: Key; training: boolean }): Tensor {
    const { p } = this.options;
    if (!training || p === 0 || images.shape[3] === 1) return images;
    return tf.tidy(() => {
      const grey = tf.tile(greyOf(images), [1, 1, 1, 3]);
      return chooseByImage(drawChance(key, 'grey', images.shape[0]!, p), grey, images);
    });
  }
}

export default definePlugin({
  name: 'greyscale',
  kind: 'transform',
  apiVersion: 1,
  description: 'Take the colour from each image with a probability.',
  options,
  implementation: Greyscale,
});
