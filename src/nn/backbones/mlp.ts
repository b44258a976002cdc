import type { Tensor } from '@tensorflow/tfjs-core';
import { kaimingNormal, zeros } from '../init.ts';
import { Activation, Dense, Dropout, Flatten } from '../layers/index.ts';
import type { Backbone, DepthGroup, Scope } from '../module.ts';

export interface MlpOptions {
  /** @default 'mlp' */
  readonly architecture?: string;
  /** [H, W, C]. */
  readonly inputSize: readonly [number, number, number];
  readonly classes: number;
  /** Units of each hidden layer. @default [256] */
  readonly widths?: readonly number[];
  /** Dropout after each hidden layer, 0..1. @default 0 */
  readonly dropRate?: number;
}

/**
 * Fully connected network over the flattened image, channels last: `layers.0`, `layers.1`, …, `fc`, with ReLU between.
 *
 * Taps: `layers.0` (before its ReLU), `layers.0.relu`, …, `stem` (the first hidden layer's output) and `features` [N,C].
 */
export class Mlp implements Backbone {
  readonly architecture: string;
  readonly inputSize: readonly [number, number, number];
  readonly classes: number;
  readonly depthGroups: readonly DepthGroup[];
  readonly classifier = 'fc';
  readonly featureTap = 'features';
  readonly #flatten = new Flatten();
  readonly #layers: readonly Dense[];
  readonly #relu = new Activation('relu');
  readonly #drop: Dropout | undefined;
  readonly #fc: Dense;

  constructor({ widths = [256], dropRate = 0, ...options }: MlpOptions) {
    this.architecture = options.architecture ?? 'mlp';
    this.inputSize = options.inputSize;
    this.classes = options.classes;
    this.#layers = widths.map((width) => new Dense(width, { init: kaimingNormal({ mode: 'in' }), biasInit: zeros() }));
    this.#drop = dropRate > 0 ? new Dropout(dropRate) : undefined;
    this.#fc = new Dense(options.classes);
    this.depthGroups = [
      ...widths.map((_, i) => ({ name: i === 0 ? 'stem' : `layers.${i}`, prefixes: [`layers.${i}`] })),
      { name: 'fc', prefixes: ['fc'] },
    ];
  }

  call(scope: Scope, x: Tensor): Tensor {
    const layers = scope.child('layers');
    let y = this.#flatten.call(scope.child('flatten'), x);
    for (const [i, dense] of this.#layers.entries()) {
      const layer = layers.child(String(i));
      y = this.#relu.call(layer.child('relu'), dense.call(layer, y));
      if (i === 0) scope.tap('stem', y);
      if (this.#drop !== undefined) y = this.#drop.call(layer.child('drop'), y);
    }
    scope.tap('features', y);
    return this.#fc.call(scope.child('fc'), y);
  }
}
