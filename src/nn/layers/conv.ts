import type { Tensor } from '@tensorflow/tfjs-core';
import { addBias, conv2d, type Padding, type Pair } from '../../engine/kernels/index.ts';
import { AlambicError } from '../../errors.ts';
import { fanUniform, zeros } from '../init.ts';
import type { Init, Module, Scope } from '../module.ts';

export interface ConvOptions {
  /** Height and width of the kernel. */
  readonly kernel: Pair;
  /** @default 1 */
  readonly stride?: Pair;
  /** @default 0, none */
  readonly padding?: Padding;
  /** @default 1 */
  readonly dilation?: Pair;
  /** @default false */
  readonly bias?: boolean;
  /** Of the kernel. @default torch's, uniform within 1/sqrt(fan in) */
  readonly init?: Init;
  /** @default zeros */
  readonly biasInit?: Init;
}

/** Height and width of a kernel. */
export function kernelSize(kernel: Pair): readonly [number, number] {
  return typeof kernel === 'number' ? [kernel, kernel] : kernel;
}

/** Throws LAYER_INPUT unless x is a batch of images [N,H,W,C]. */
export function checkImages(scope: Scope, x: Tensor): void {
  if (x.rank === 4) return;
  throw new AlambicError('LAYER_INPUT', `${scope.path || 'the network'}: expected images [N,H,W,C], got [${x.shape}]`);
}

/**
 * Convolution: x [N,H,W,I] -> [N,H',W',filters]. Parameters `weight` [kh,kw,I,filters] and, on demand, `bias` [filters].
 *
 * @example
 * new Conv(64, { kernel: 3, padding: 1 }).call(scope.child('conv1'), images);
 */
export class Conv implements Module {
  readonly #filters: number;
  readonly #options: ConvOptions;
  readonly #init: Init;
  readonly #biasInit: Init;

  constructor(filters: number, options: ConvOptions) {
    this.#filters = filters;
    this.#options = options;
    this.#init = options.init ?? fanUniform();
    this.#biasInit = options.biasInit ?? zeros();
  }

  call(scope: Scope, x: Tensor): Tensor {
    checkImages(scope, x);
    const { stride = 1, padding = 0, dilation = 1, bias = false } = this.#options;
    const shape = [...kernelSize(this.#options.kernel), x.shape[3]!, this.#filters];
    const y = conv2d(x, scope.param('weight', shape, this.#init, 'kernel'), { stride, padding, dilation });
    return scope.tap('', bias ? addBias(y, scope.param('bias', [this.#filters], this.#biasInit, 'bias')) : y);
  }
}
