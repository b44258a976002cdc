import type { Tensor } from '@tensorflow/tfjs-core';
import { dropout } from '../../engine/kernels/index.ts';
import { AlambicError } from '../../errors.ts';
import type { Module, Scope } from '../module.ts';

/** Sets a share `rate` of the values to 0 and scales the rest by 1/(1-rate), in mode `train` only (arXiv 1207.0580). */
export class Dropout implements Module {
  readonly #rate: number;

  /** @throws AlambicError LAYER_OPTION unless 0 <= rate < 1. */
  constructor(rate: number) {
    if (!(rate >= 0 && rate < 1)) {
      throw new AlambicError('LAYER_OPTION', `expected a dropout rate in [0,1), got ${rate}`);
    }
    this.#rate = rate;
  }

  call(scope: Scope, x: Tensor): Tensor {
    const active = scope.mode === 'train' && this.#rate > 0;
    return scope.tap('', active ? dropout(x, this.#rate, scope.random('dropout')) : x);
  }
}
