import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { averagePool, globalAveragePool, maxPool, type PoolOptions } from '../../engine/kernels/index.ts';
import type { Module, Scope } from '../module.ts';
import { checkImages } from './conv.ts';

/** Largest value of each window; padded places never win. x [N,H,W,C] -> [N,H',W',C]. */
export class MaxPool implements Module {
  readonly #options: PoolOptions;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  call(scope: Scope, x: Tensor): Tensor {
    checkImages(scope, x);
    return scope.tap('', maxPool(x, this.#options));
  }
}

/** Mean of each window; numeric padding counts as zeros. x [N,H,W,C] -> [N,H',W',C]. */
export class AveragePool implements Module {
  readonly #options: PoolOptions;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  call(scope: Scope, x: Tensor): Tensor {
    checkImages(scope, x);
    return scope.tap('', averagePool(x, this.#options));
  }
}

/** Mean over height and width: [N,H,W,C] -> [N,C]. */
export class GlobalPool implements Module {
  call(scope: Scope, x: Tensor): Tensor {
    checkImages(scope, x);
    return scope.tap('', globalAveragePool(x));
  }
}

/** Images as one vector each: [N,H,W,C] -> [N,H*W*C], channels last (torch flattens channels first). */
export class Flatten implements Module {
  call(scope: Scope, x: Tensor): Tensor {
    const [batch = 1, ...rest] = x.shape;
    return scope.tap('', tf.reshape(x, [batch, rest.reduce((product, size) => product * size, 1)]));
  }
}
