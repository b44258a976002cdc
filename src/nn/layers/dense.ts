import type { Tensor } from '@tensorflow/tfjs-core';
import { dense } from '../../engine/kernels/index.ts';
import { AlambicError } from '../../errors.ts';
import { fanUniform, uniform } from '../init.ts';
import type { Init, Module, Scope, Shape } from '../module.ts';

export interface DenseOptions {
  /** @default true */
  readonly bias?: boolean;
  /** Of the kernel. @default torch's, uniform within 1/sqrt(inputs) */
  readonly init?: Init;
  /** @default torch's, uniform within 1/sqrt(inputs) */
  readonly biasInit?: Init;
}

/**
 * Fully connected layer: x [N,I] -> [N,outputs]. Parameters `weight` [I,outputs] and `bias` [outputs].
 *
 * @example
 * const logits = new Dense(10).call(scope.child('fc'), features);
 */
export class Dense implements Module {
  readonly #outputs: number;
  readonly #options: DenseOptions;
  readonly #init: Init;
  readonly #biasInits = new Map<number, Init>();

  constructor(outputs: number, options: DenseOptions = {}) {
    this.#outputs = outputs;
    this.#options = options;
    this.#init = options.init ?? fanUniform();
  }

  call(scope: Scope, x: Tensor): Tensor {
    if (x.rank !== 2) {
      throw new AlambicError('LAYER_INPUT', `${scope.path || 'the layer'}: expected features [N,C], got [${x.shape}]`, {
        hint: 'Pool or flatten images before a dense layer.',
      });
    }
    const inputs = x.shape[1]!;
    const shape: Shape = [inputs, this.#outputs];
    const kernel = scope.param('weight', shape, this.#init, 'kernel');
    if (this.#options.bias === false) return scope.tap('', dense(x, kernel));
    return scope.tap('', dense(x, kernel, scope.param('bias', [this.#outputs], this.#biasInit(inputs), 'bias')));
  }

  /** One initialiser per number of inputs, so that a second call of this layer is known as the same one. */
  #biasInit(inputs: number): Init {
    if (this.#options.biasInit !== undefined) return this.#options.biasInit;
    let init = this.#biasInits.get(inputs);
    if (init === undefined) {
      init = uniform(-1 / Math.sqrt(inputs), 1 / Math.sqrt(inputs));
      this.#biasInits.set(inputs, init);
    }
    return init;
  }
}
