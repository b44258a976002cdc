import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { batchNorm } from '../../engine/kernels/index.ts';
import { AlambicError } from '../../errors.ts';
import { ones, zeros } from '../init.ts';
import type { Init, Module, Scope } from '../module.ts';

export interface BatchNormOptions {
  /** @default 1e-5 */
  readonly epsilon?: number;
  /** Share of the new batch in the running statistics, torch's sense (Keras and TensorFlow state 1 minus this). @default 0.1 */
  readonly momentum?: number;
  /** First value of the scale; zeros make a residual branch start as nothing. @default ones */
  readonly scaleInit?: Init;
}

/**
 * Batch normalisation over all axes but the last of [N,H,W,C] or [N,C] (arXiv 1502.03167). Parameters `weight` and `bias`, buffers
 * `running_mean` and `running_var` (unbiased, as in torch). In mode `infer` it reads the running statistics and leaves them alone; in
 * `batch-stats` it uses the batch's and leaves the running ones alone.
 *
 * @throws AlambicError BATCH_TOO_SMALL where the batch's statistics are of a single value per channel.
 */
export class BatchNorm implements Module {
  readonly #epsilon: number;
  readonly #momentum: number;
  readonly #scaleInit: Init;
  readonly #offsetInit = zeros();
  readonly #meanInit = zeros();
  readonly #varianceInit = ones();

  constructor({ epsilon = 1e-5, momentum = 0.1, scaleInit = ones() }: BatchNormOptions = {}) {
    this.#epsilon = epsilon;
    this.#momentum = momentum;
    this.#scaleInit = scaleInit;
  }

  call(scope: Scope, x: Tensor): Tensor {
    const shape = [x.shape[x.rank - 1]!];
    const scale = scope.param('weight', shape, this.#scaleInit, 'norm');
    const offset = scope.param('bias', shape, this.#offsetInit, 'norm');
    const mean = scope.buffer('running_mean', shape, this.#meanInit);
    const variance = scope.buffer('running_var', shape, this.#varianceInit);
    const batchStatistics = scope.mode !== 'infer';
    if (batchStatistics && x.size <= shape[0]!) {
      throw new AlambicError(
        'BATCH_TOO_SMALL',
        `${scope.path}: batch statistics need more than one value per channel, got x [${x.shape}]`,
        { hint: 'Use a batch of at least 2, or larger images.' },
      );
    }
    const result = batchNorm(x, { scale, offset, mean, variance }, { epsilon: this.#epsilon, batchStatistics });
    if (scope.mode === 'train') {
      scope.update('running_mean', this.#move(mean, result.mean));
      scope.update('running_var', this.#move(variance, result.variance));
    }
    return scope.tap('', result.y);
  }

  #move(running: Tensor, batch: Tensor): Tensor {
    return tf.add(tf.mul(running, 1 - this.#momentum), tf.mul(batch, this.#momentum));
  }
}
