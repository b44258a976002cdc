import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import { AlambicError } from '../../errors.ts';
import type { Shape } from '../../nn/module.ts';
import type { Transform } from '../../plugin-host/contract.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { TOKEN } from '../../plugin-host/tokens.ts';
import { imageShape } from './size.ts';

const options = z.strictObject({
  mean: z.array(z.number()).min(1).describe('mean of each channel, of values in 0..1; one number for all channels'),
  std: z
    .array(z.number().positive())
    .min(1)
    .describe('standard deviation of each channel; one number for all channels'),
});

type Options = z.infer<typeof options>;

/** (x - mean) / std for each channel of images [N,H,W,C]. */
export function normaliseImages(images: Tensor, mean: readonly number[], std: readonly number[]): Tensor {
  return tf.tidy(() => tf.div(tf.sub(images, tf.tensor1d([...mean])), tf.tensor1d([...std])));
}

/** (x - mean) / std for each channel, in training and evaluation. Colour transforms, which work in 0..1, belong before it. */
@injectable()
class Normalise implements Transform {
  constructor(@inject(TOKEN.Options) private readonly options: Options) {}

  outputShape(input: Shape): Shape {
    const [height, width, channels] = imageShape(input, 'normalise');
    const { mean, std } = this.options;
    for (const [name, values] of Object.entries({ mean, std })) {
      if (values.length !== 1 && values.length !== channels) {
        throw new AlambicError(
          'PRECONDITION',
          `expected 1 or ${channels} numbers in \`${name}\` of normalise, got ${values.length}`,
          { hint: 'One for each channel of the images, or one for all.' },
        );
      }
    }
    return [height, width, channels];
  }

  call(images: Tensor): Tensor {
    return normaliseImages(images, this.options.mean, this.options.std);
  }
}

export default definePlugin({
  name: 'normalise',
  kind: 'transform',
  apiVersion: 1,
  description: 'Subtract a mean and divide by a standard deviation, for each channel.',
  options,
  implementation: Normalise,
});
