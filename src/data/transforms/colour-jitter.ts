import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Key } from '../../engine/random.ts';
import type { Shape } from '../../nn/module.ts';
import type { Transform } from '../../plugin-host/contract.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { TOKEN } from '../../plugin-host/tokens.ts';
import { adjustBrightness, adjustContrast, adjustHue, adjustSaturation } from './colour.ts';
import { chooseByImage, drawChance, drawUniform } from './draw.ts';
import { requireColours } from './size.ts';

const strength = z.union([z.number().min(0), z.tuple([z.number().min(0), z.number().min(0)])]).default(0);
const options = z.strictObject({
  brightness: strength.describe('factor from max(0, 1 - x) to 1 + x, or [low, high]'),
  contrast: strength.describe('factor from max(0, 1 - x) to 1 + x, or [low, high]'),
  saturation: strength.describe('factor from max(0, 1 - x) to 1 + x, or [low, high]'),
  hue: z.number().min(0).max(0.5).default(0).describe('largest turn of the hue either way, as a share of the circle'),
  p: z.number().min(0).max(1).default(1).describe('probability that an image is changed at all'),
});

type Options = z.infer<typeof options>;

const ADJUSTMENTS = { brightness: adjustBrightness, contrast: adjustContrast, saturation: adjustSaturation } as const;

/**
 * Random brightness, contrast, saturation and hue, drawn for each image. They are applied in this order always: torchvision shuffles
 * the order, which a step that is recorded once cannot. In evaluation nothing. Works on values in 0..1.
 */
@injectable()
class ColourJitter implements Transform {
  constructor(@inject(TOKEN.Options) private readonly options: Options) {}

  outputShape(input: Shape): Shape {
    return requireColours(input, 'colour-jitter', [1, 3]);
  }

  call(images: Tensor, { key, training }: { key: Key; training: boolean }): Tensor {
    if (!training) return images;
    const count = images.shape[0]!;
    const { hue, p } = this.options;
    return tf.tidy(() => {
      let changed = images;
      for (const [name, adjust] of Object.entries(ADJUSTMENTS)) {
        const option = this.options[name as keyof typeof ADJUSTMENTS];
        const [low, high] = typeof option === 'number' ? [Math.max(0, 1 - option), 1 + option] : option;
        if (low !== 1 || high !== 1) changed = adjust(changed, drawUniform(key, name, count, low, high));
      }
      if (hue > 0) changed = adjustHue(changed, drawUniform(key, 'hue', count, -hue, hue));
      return p === 1 ? changed : chooseByImage(drawChance(key, 'p', count, p), changed, images);
    });
  }
}

export default definePlugin({
  name: 'colour-jitter',
  kind: 'transform',
  apiVersion: 1,
  description: 'Change brightness, contrast, saturation and hue at random.',
  options,
  implementation: ColourJitter,
});
