import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Key } from '../../engine/random.ts';
import type { Shape } from '../../nn/module.ts';
import type { Transform } from '../../plugin-host/contract.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { TOKEN } from '../../plugin-host/tokens.ts';
import { chooseByImage, drawChance } from './draw.ts';
import { imageShape } from './size.ts';

const options = z.strictObject({
  p: z.number().min(0).max(1).default(0.5).describe('probability, 0..1'),
  direction: z.enum(['horizontal', 'vertical']).default('horizontal').describe('left-right or top-bottom'),
});

type Options = z.infer<typeof options>;

/** Mirrors the images [N,H,W,C] for which `flipped` (bool [N]) holds. */
export function flipImages(images: Tensor, flipped: Tensor, direction: Options['direction'] = 'horizontal'): Tensor {
  return chooseByImage(flipped, tf.reverse(images, direction === 'horizontal' ? 2 : 1), images);
}

/** Mirrors each image with probability p. In evaluation nothing. */
@injectable()
class Flip implements Transform {
  constructor(@inject(TOKEN.Options) private readonly options: Options) {}

  outputShape(input: Shape): Shape {
    return imageShape(input, 'flip');
  }

  call(images: Tensor, { key, training }: { key: Key; training: boolean }): Tensor {
    const { p, direction } = this.options;
    if (!training || p === 0) return images;
    return tf.tidy(() => flipImages(images, drawChance(key, 'flip', images.shape[0]!, p), direction));
  }
}

export default definePlugin({
  name: 'flip',
  kind: 'transform',
  apiVersion: 1,
  description: 'Mirror each image with a probability.',
  options,
  implementation: Flip,
});
