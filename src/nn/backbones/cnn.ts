import type { Tensor } from '@tensorflow/tfjs-core';
import { kaimingNormal } from '../init.ts';
import { Activation, BatchNorm, Conv, Dense, Dropout, GlobalPool } from '../layers/index.ts';
import type { Backbone, DepthGroup, Scope } from '../module.ts';

export interface CnnOptions {
  /** @default 'cnn' */
  readonly architecture?: string;
  /** [H, W, C]. */
  readonly inputSize: readonly [number, number, number];
  readonly classes: number;
  /** Channels of each stage; every stage but the first halves height and width. @default [32, 64, 128] */
  readonly widths?: readonly number[];
  /** Convolutions of each stage. @default 1 */
  readonly depth?: number;
  /** Dropout before the classifier, 0..1. @default 0 */
  readonly dropRate?: number;
}

/**
 * A plain network of 3x3 convolutions with norm and ReLU: `stages.0.0.conv`, `stages.0.0.bn`, …, `fc`.
 *
 * Taps: the output of every layer by its path, `stem` (the first layer), each layer (`stages.0.0`), each stage (`stages.0`) and
 * `features` [N,C].
 */
export class Cnn implements Backbone {
  readonly architecture: string;
  readonly inputSize: readonly [number, number, number];
  readonly classes: number;
  readonly depthGroups: readonly DepthGroup[];
  readonly classifier = 'fc';
  readonly featureTap = 'features';
  readonly #stages: readonly (readonly { readonly conv: Conv; readonly bn: BatchNorm }[])[];
  readonly #relu = new Activation('relu');
  readonly #pool = new GlobalPool();
  readonly #drop: Dropout | undefined;
  readonly #fc: Dense;

  constructor({ widths = [32, 64, 128], depth = 1, dropRate = 0, ...options }: CnnOptions) {
    this.architecture = options.architecture ?? 'cnn';
    this.inputSize = options.inputSize;
    this.classes = options.classes;
    this.#stages = widths.map((width, i) =>
      Array.from({ length: depth }, (_, j) => ({
        conv: new Conv(width, {
          kernel: 3,
          stride: i > 0 && j === 0 ? 2 : 1,
          padding: 1,
          init: kaimingNormal({ mode: 'out' }),
        }),
        bn: new BatchNorm(),
      })),
    );
    this.#drop = dropRate > 0 ? new Dropout(dropRate) : undefined;
    this.#fc = new Dense(options.classes);
    this.depthGroups = [
      ...this.#stages.flatMap((layers, i) =>
        layers.map((_, j) => ({
          name: i === 0 && j === 0 ? 'stem' : `stages.${i}.${j}`,
          prefixes: [`stages.${i}.${j}`],
        })),
      ),
      { name: 'fc', prefixes: ['fc'] },
    ];
  }

  call(scope: Scope, x: Tensor): Tensor {
    const stages = scope.child('stages');
    let y = x;
    for (const [i, layers] of this.#stages.entries()) {
      const stage = stages.child(String(i));
      for (const [j, { conv, bn }] of layers.entries()) {
        const layer = stage.child(String(j));
        y = bn.call(layer.child('bn'), conv.call(layer.child('conv'), y));
        y = layer.tap('', this.#relu.call(layer.child('relu'), y));
        if (i === 0 && j === 0) scope.tap('stem', y);
      }
      stage.tap('', y);
    }
    y = this.#pool.call(scope.child('features'), y);
    if (this.#drop !== undefined) y = this.#drop.call(scope.child('drop'), y);
    return this.#fc.call(scope.child('fc'), y);
  }
}
