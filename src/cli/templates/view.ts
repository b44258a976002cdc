import {
  definePlugin,
  inject,
  injectable,
  type Key,
  type KindContracts,
  kernels,
  TOKEN,
  type Transform,
  tf,
  z,
} from 'alambic/plugin';

const Options = z.strictObject({
  views: z.int().min(1).default(2).describe('views of each image'),
  noise: z
    .number()
    .min(0)
    .default(0.1)
    .describe('standard deviation of the noise of the last view; the first has none'),
});

/** Views of an image with more and more noise: from none in the first to `noise` in the last. */
@injectable()
export class MyView implements Readonly<KindContracts['view']> {
  constructor(@inject(TOKEN.Options) private readonly options: z.output<typeof Options>) {}

  get views(): number {
    return this.options.views;
  }

  transforms(view: number): readonly Transform[] {
    const { views, noise } = this.options;
    const deviation = views === 1 ? noise : (noise * view) / (views - 1);
    if (deviation === 0) return [];
    const addNoise = (images: tf.Tensor, { key }: { key: Key }) =>
      tf.add(images, kernels.randomNormal(key, images.shape, 0, deviation));
    return [{ outputShape: (input) => input, call: addNoise }];
  }
}

export default definePlugin({
  name: 'my-view',
  kind: 'view',
  apiVersion: 1,
  description: 'Views of an image with more and more noise.',
  options: Options,
  implementation: MyView,
});
