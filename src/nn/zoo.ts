import { inject, injectable } from 'inversify';
import { z } from 'zod';
import { AlambicError, unknownName } from '../errors.ts';
import type { KindContracts, Plugin } from '../plugin-host/contract.ts';
import { definePlugin } from '../plugin-host/define.ts';
import { TOKEN } from '../plugin-host/tokens.ts';
import { Cnn } from './backbones/cnn.ts';
import { Mlp } from './backbones/mlp.ts';
import { MobileNetV2 } from './backbones/mobilenet-v2.ts';
import { ResNet } from './backbones/resnet.ts';
import { cifarResNet } from './backbones/resnet-cifar.ts';
import type { Backbone, Preprocessing } from './module.ts';

/** What a network is built for. */
export interface BuildInput {
  /** [H, W, C]. */
  readonly inputSize: readonly [number, number, number];
  readonly classes: number;
}

/** A network that comes with alambic: what it is called, what its published weights expect, and how to build it. */
export interface ZooEntry {
  /** timm's name where timm has the network, else the one of the distillation literature. */
  readonly name: string;
  readonly description: string;
  /** Where the architecture was published. */
  readonly paper: string;
  /** Licence of our definition of it; weights have their own. */
  readonly licence: string;
  /** Number of classes it was published for. */
  readonly classes: number;
  /** Of its published weights. */
  readonly preprocessing: Preprocessing;
  readonly plugin: Plugin<'model'>;
  /** @throws AlambicError MODEL_OPTION where the options or sizes do not fit. */
  build(input: BuildInput, options?: Readonly<Record<string, unknown>>): Backbone;
}

type About = Omit<ZooEntry, 'plugin' | 'build' | 'licence'>;

const IMAGENET = { inputSize: [224, 224, 3], mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] } as const;

/** timm's `a1_in1k` and `ra_in1k` weights. */
const imageNet = (cropShare: number): Pick<About, 'classes' | 'preprocessing'> => ({
  classes: 1000,
  preprocessing: { ...IMAGENET, interpolation: 'bicubic', cropShare },
});

/** CIFAR-100 as RepDistiller normalises it. */
const CIFAR: Pick<About, 'classes' | 'preprocessing'> = {
  classes: 100,
  preprocessing: {
    inputSize: [32, 32, 3],
    mean: [0.5071, 0.4867, 0.4408],
    std: [0.2675, 0.2565, 0.2761],
    interpolation: 'bilinear',
    cropShare: 1,
  },
};

function checkInput(name: string, { inputSize, classes }: BuildInput): void {
  const whole = (n: number) => Number.isInteger(n) && n >= 1;
  if (inputSize.length !== 3 || !inputSize.every(whole)) {
    throw new AlambicError(
      'MODEL_OPTION',
      `${name}: expected an input size [H, W, C] of whole numbers, got [${inputSize}]`,
    );
  }
  if (!whole(classes)) throw new AlambicError('MODEL_OPTION', `${name}: expected at least one class, got ${classes}`);
}

/** One zoo entry: the table's row, and the plugin whose options arrive by injection. */
function entry<O extends z.ZodType>(
  about: About,
  options: O,
  build: (input: BuildInput, options: z.output<O>) => Backbone,
): ZooEntry {
  const checked = (input: BuildInput, given: z.output<O>) => {
    checkInput(about.name, input);
    return build(input, given);
  };

  @injectable()
  class ZooModel implements Readonly<KindContracts['model']> {
    constructor(@inject(TOKEN.Options) private readonly options: z.output<O>) {}

    build(input: BuildInput): Backbone {
      return checked(input, this.options);
    }
  }

  return {
    ...about,
    licence: 'Apache-2.0',
    plugin: definePlugin({
      name: about.name,
      kind: 'model',
      apiVersion: 1,
      description: about.description,
      options,
      implementation: ZooModel,
    }),
    build: (input, given = {}) => {
      const parsed = options.safeParse(given);
      if (!parsed.success) throw optionError(about.name, parsed.error);
      return checked(input, parsed.data);
    },
  };
}

function optionError(name: string, error: z.ZodError): AlambicError {
  const [issue] = error.issues;
  const where = issue === undefined || issue.path.length === 0 ? '' : ` ${issue.path.join('.')}:`;
  return new AlambicError('MODEL_OPTION', `${name}:${where} ${issue?.message ?? error.message}`, { cause: error });
}

const dropRate = z.number().min(0).lt(1).default(0).describe('dropout before the classifier, 0..1');
const zeroInitLast = (initial: boolean) =>
  z.boolean().default(initial).describe('whether the scale of the last norm of each block starts at 0');
const widths = (initial: number[], description: string) =>
  z.array(z.int().positive()).min(1).default(initial).describe(description);

function cifar(name: string, depth: number, initial: readonly [number, number, number, number]): ZooEntry {
  return entry(
    {
      name,
      description: `CIFAR ResNet of ${depth} layers, widths ${initial.join(', ')}.`,
      paper: 'arXiv 1512.03385',
      ...CIFAR,
    },
    z.strictObject({
      widths: z
        .tuple([z.int().positive(), z.int().positive(), z.int().positive(), z.int().positive()])
        .default([...initial])
        .describe('channels of the stem and of the three stages'),
      zeroInitLast: zeroInitLast(false),
      dropRate,
    }),
    (input, options) => cifarResNet({ architecture: name, depth, ...input, ...options }),
  );
}

function resNet(name: string, block: 'basic' | 'bottleneck', depths: readonly number[]): ZooEntry {
  return entry(
    { name, description: `ResNet-${name.slice(6)} with timm's names.`, paper: 'arXiv 1512.03385', ...imageNet(0.95) },
    z.strictObject({
      stem: z
        .enum(['imagenet', 'cifar'])
        .default('imagenet')
        .describe('7x7 at stride 2 with a max-pool, or 3x3 at stride 1 for small pictures'),
      zeroInitLast: zeroInitLast(true),
      dropRate,
    }),
    (input, options) =>
      new ResNet({
        architecture: name,
        block,
        depths,
        widths: [64, 128, 256, 512],
        stemWidth: 64,
        ...input,
        ...options,
      }),
  );
}

function mobileNetV2(name: string, width: number): ZooEntry {
  return entry(
    {
      name,
      description: `MobileNetV2 of width ${width} with timm's names.`,
      paper: 'arXiv 1801.04381',
      ...imageNet(0.875),
    },
    z.strictObject({
      width: z.number().positive().default(width).describe('multiplies the channels'),
      stemStride: z
        .union([z.literal(1), z.literal(2)])
        .default(2)
        .describe('stride of the first convolution; 1 for small pictures'),
      dropRate,
    }),
    (input, options) => new MobileNetV2({ architecture: name, ...input, ...options }),
  );
}

/** All networks that come with alambic. */
export const ZOO: readonly ZooEntry[] = [
  ...[8, 14, 20, 32, 44, 56, 110].map((depth) => cifar(`resnet${depth}`, depth, [16, 16, 32, 64])),
  cifar('resnet8x4', 8, [32, 64, 128, 256]),
  cifar('resnet32x4', 32, [32, 64, 128, 256]),
  resNet('resnet18', 'basic', [2, 2, 2, 2]),
  resNet('resnet34', 'basic', [3, 4, 6, 3]),
  resNet('resnet50', 'bottleneck', [3, 4, 6, 3]),
  mobileNetV2('mobilenetv2_035', 0.35),
  mobileNetV2('mobilenetv2_050', 0.5),
  mobileNetV2('mobilenetv2_100', 1),
  entry(
    { name: 'cnn', description: 'Plain 3x3 convolutions with norm and ReLU.', paper: '', ...CIFAR },
    z.strictObject({
      widths: widths([32, 64, 128], 'channels of each stage; every stage but the first halves height and width'),
      depth: z.int().positive().default(1).describe('convolutions of each stage'),
      dropRate,
    }),
    (input, options) => new Cnn({ ...input, ...options }),
  ),
  entry(
    { name: 'mlp', description: 'Fully connected network over the flattened image.', paper: '', ...CIFAR },
    z.strictObject({
      widths: widths([256], 'units of each hidden layer'),
      dropRate: z.number().min(0).lt(1).default(0).describe('dropout after each hidden layer, 0..1'),
    }),
    (input, options) => new Mlp({ ...input, ...options }),
  ),
];

/** The zoo as plugins of the kind `model`. */
export const MODEL_PLUGINS: readonly Plugin<'model'>[] = ZOO.map(({ plugin }) => plugin);

/**
 * The zoo's entry of a name.
 *
 * @throws AlambicError UNKNOWN_MODEL with the nearest known name.
 */
export function zooEntry(name: string): ZooEntry {
  const found = ZOO.find((candidate) => candidate.name === name);
  if (found === undefined)
    throw unknownName(
      'UNKNOWN_MODEL',
      'model',
      name,
      ZOO.map((candidate) => candidate.name),
    );
  return found;
}

/**
 * Builds a network by name, for its published input size and number of classes unless told otherwise.
 *
 * @throws AlambicError UNKNOWN_MODEL, MODEL_OPTION.
 * @example
 * const student = createBackbone('resnet8', { inputSize: [28, 28, 1], classes: 10 });
 */
export function createBackbone(
  name: string,
  { options, ...input }: Partial<BuildInput> & { readonly options?: Readonly<Record<string, unknown>> } = {},
): Backbone {
  const { build, preprocessing, classes } = zooEntry(name);
  return build({ inputSize: preprocessing.inputSize, classes, ...input }, options);
}
