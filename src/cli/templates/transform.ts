import {
  definePlugin,
  inject,
  injectable,
  type Key,
  kernels,
  type Shape,
  TOKEN,
  type Transform,
  tf,
  z,
} from 'alambic/plugin';

const Options = z.strictObject({
  amount: z.number().min(0).max(1).default(0.2).describe('largest change of the brightness, 0..1'),
});

/** Adds one random number in -amount..amount to each image [N,H,W,C] in 0..1, and keeps it there. In evaluation nothing. */
@injectable()
export class MyTransform implements Transform {
  constructor(@inject(TOKEN.Options) private readonly options: z.output<typeof Options>) {}

  outputShape(input: Shape): Shape {
    return input;
  }

  call(images: tf.Tensor, { key, training }: { key: Key; training: boolean }): tf.Tensor {
    const { amount } = this.options;
    if (!training || amount === 0) return images;
    const change = kernels.randomUniform(key, [images.shape[0]!, 1, 1, 1], -amount, amount);
    return tf.clipByValue(tf.add(images, change), 0, 1);
  }
}

export default definePlugin({
  name: 'my-transform',
  kind: 'transform',
  apiVersion: 1,
  description: 'Change the brightness of each image at random.',
  options: Options,
  implementation: MyTransform,
});
