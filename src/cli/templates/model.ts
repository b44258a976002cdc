import {
  type Backbone,
  definePlugin,
  inject,
  injectable,
  type KindContracts,
  layers,
  type Scope,
  TOKEN,
  type tf,
  z,
} from 'alambic/plugin';

const Options = z.strictObject({
  width: z.int().positive().default(32).describe('channels of the first block; the second has twice as many'),
});

type BuildInput = Parameters<KindContracts['model']['build']>[0];

/** Two blocks of convolution, BatchNorm and ReLU, pooled, with a linear classifier: [N,H,W,C] -> logits [N,classes]. */
class MyModelNetwork implements Backbone {
  readonly architecture = 'my-model';
  readonly inputSize: BuildInput['inputSize'];
  readonly classes: number;
  readonly depthGroups = ['block1', 'block2', 'fc'].map((name) => ({ name, prefixes: [name] }));
  readonly classifier = 'fc';
  readonly featureTap = 'features';
  readonly #convolutions: readonly layers.Conv[];

  constructor({ inputSize, classes }: BuildInput, width: number) {
    this.inputSize = inputSize;
    this.classes = classes;
    this.#convolutions = [1, 2].map((stride) => new layers.Conv(width * stride, { kernel: 3, stride, padding: 1 }));
  }

  call(scope: Scope, images: tf.Tensor): tf.Tensor {
    let x = images;
    for (const [i, convolution] of this.#convolutions.entries()) {
      const block = scope.child(`block${i + 1}`);
      x = new layers.BatchNorm().call(block.child('bn'), convolution.call(block.child('conv'), x));
      x = new layers.Activation('relu').call(block.child('relu'), x);
    }
    const features = new layers.GlobalPool().call(scope.child('features'), x);
    return new layers.Dense(this.classes).call(scope.child('fc'), features);
  }
}

@injectable()
export class MyModel {
  constructor(@inject(TOKEN.Options) private readonly options: z.output<typeof Options>) {}

  build(input: BuildInput): Backbone {
    return new MyModelNetwork(input, this.options.width);
  }
}

export default definePlugin({
  name: 'my-model',
  kind: 'model',
  apiVersion: 1,
  description: 'Two convolution blocks and a linear classifier.',
  options: Options,
  implementation: MyModel,
});
