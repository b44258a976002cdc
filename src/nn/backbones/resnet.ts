import type { Tensor } from '@tensorflow/tfjs-core';
import { Activation, BatchNorm, type Conv, Dense, Dropout, GlobalPool, MaxPool } from '../layers/index.ts';
import type { Backbone, DepthGroup, Module, Scope } from '../module.ts';
import { BasicBlock, Bottleneck, residualConv } from './residual-block.ts';

export interface ResNetOptions {
  readonly architecture: string;
  /** [H, W, C]. */
  readonly inputSize: readonly [number, number, number];
  readonly classes: number;
  readonly block: 'basic' | 'bottleneck';
  /** Blocks of each stage; every stage but the first halves height and width. */
  readonly depths: readonly number[];
  /** Channels of each stage's 3x3 convolutions; a bottleneck's output has four times as many. */
  readonly widths: readonly number[];
  /** Channels of the stem. @default the first stage's */
  readonly stemWidth?: number;
  /** `imagenet`: 7x7 at stride 2 and a max-pool; `cifar`: 3x3 at stride 1, no pool. @default 'imagenet' */
  readonly stem?: 'imagenet' | 'cifar';
  /** Whether each block starts as its shortcut. @default true, as in timm */
  readonly zeroInitLast?: boolean;
  /** Dropout before the classifier, 0..1. @default 0 */
  readonly dropRate?: number;
}

/**
 * Residual network (arXiv 1512.03385) with timm's names: `conv1`, `bn1`, `layer1.0.conv1`, …, `fc`.
 *
 * Taps: the output of every layer by its path, `stem`, each block (`layer1.0`; `layer1.0.sum` before and `layer1.0.relu` after its last
 * ReLU), each stage (`layer1`) and `features` [N,C], the pooled features before the classifier.
 *
 * @example
 * const network = new ResNet({ architecture: 'resnet18', inputSize: [32, 32, 3], classes: 10, block: 'basic', depths: [2, 2, 2, 2],
 *   widths: [64, 128, 256, 512], stem: 'cifar' });
 */
export class ResNet implements Backbone {
  readonly architecture: string;
  readonly inputSize: readonly [number, number, number];
  readonly classes: number;
  readonly depthGroups: readonly DepthGroup[];
  readonly classifier = 'fc';
  readonly featureTap = 'features';
  readonly #conv1: Conv;
  readonly #bn1 = new BatchNorm();
  readonly #act1 = new Activation('relu');
  readonly #maxPool: MaxPool | undefined;
  readonly #stages: readonly (readonly Module[])[];
  readonly #pool = new GlobalPool();
  readonly #drop: Dropout | undefined;
  readonly #fc: Dense;

  constructor(options: ResNetOptions) {
    const { widths, stemWidth = widths[0]!, stem = 'imagenet', zeroInitLast = true, dropRate = 0 } = options;
    this.architecture = options.architecture;
    this.inputSize = options.inputSize;
    this.classes = options.classes;
    this.#conv1 = stem === 'imagenet' ? residualConv(stemWidth, 7, 2) : residualConv(stemWidth, 3);
    this.#maxPool = stem === 'imagenet' ? new MaxPool({ size: 3, stride: 2, padding: 1 }) : undefined;
    const Block = options.block === 'basic' ? BasicBlock : Bottleneck;
    let inputs = stemWidth;
    this.#stages = options.depths.map((depth, i) =>
      Array.from({ length: depth }, (_, j) => {
        const width = widths[i]!;
        const block = new Block({ inputs, width, stride: i > 0 && j === 0 ? 2 : 1, zeroInitLast });
        inputs = width * Block.expansion;
        return block;
      }),
    );
    this.#drop = dropRate > 0 ? new Dropout(dropRate) : undefined;
    this.#fc = new Dense(options.classes);
    this.depthGroups = [
      { name: 'stem', prefixes: ['conv1', 'bn1'] },
      ...options.depths.flatMap((depth, i) =>
        Array.from({ length: depth }, (_, j) => ({ name: `layer${i + 1}.${j}`, prefixes: [`layer${i + 1}.${j}`] })),
      ),
      { name: 'fc', prefixes: ['fc'] },
    ];
  }

  call(scope: Scope, x: Tensor): Tensor {
    let y = this.#conv1.call(scope.child('conv1'), x);
    y = this.#bn1.call(scope.child('bn1'), y);
    y = this.#act1.call(scope.child('act1'), y);
    if (this.#maxPool !== undefined) y = this.#maxPool.call(scope.child('maxpool'), y);
    scope.tap('stem', y);
    for (const [i, blocks] of this.#stages.entries()) {
      const stage = scope.child(`layer${i + 1}`);
      for (const [j, block] of blocks.entries()) y = block.call(stage.child(String(j)), y);
      stage.tap('', y);
    }
    y = this.#pool.call(scope.child('features'), y);
    if (this.#drop !== undefined) y = this.#drop.call(scope.child('drop'), y);
    return this.#fc.call(scope.child('fc'), y);
  }
}
