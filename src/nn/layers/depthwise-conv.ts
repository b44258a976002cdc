import type { Tensor } from '@tensorflow/tfjs-core';
import { addBias, depthwiseConv2d } from '../../engine/kernels/index.ts';
import { fanUniform, zeros } from '../init.ts';
import type { Init, Module, Scope } from '../module.ts';
import { type ConvOptions, checkImages, kernelSize } from './conv.ts';

/**
 * Convolution of each channel by itself: x [N,H,W,C] -> [N,H',W',C]. Parameters `weight` [kh,kw,C,1] and, on demand, `bias` [C].
 *
 * @example
 * new DepthwiseConv({ kernel: 3, stride: 2, padding: 1 }).call(scope.child('conv_dw'), x);
 */
export class DepthwiseConv implements Module {
  readonly #options: ConvOptions;
  readonly #init: Init;
  readonly #biasInit: Init;

  constructor(options: ConvOptions) {
    this.#options = options;
    this.#init = options.init ?? fanUniform({ depthwise: true });
    this.#biasInit = options.biasInit ?? zeros();
  }

  call(scope: Scope, x: Tensor): Tensor {
    checkImages(scope, x);
    const { stride = 1, padding = 0, dilation = 1, bias = false } = this.#options;
    const channels = x.shape[3]!;
    const kernel = scope.param(
      'weight',
      [...kernelSize(this.#options.kernel), channels, 1],
      this.#init,
      'depthwise-kernel',
    );
    const y = depthwiseConv2d(x, kernel, { stride, padding, dilation });
    return scope.tap('', bias ? addBias(y, scope.param('bias', [channels], this.#biasInit, 'bias')) : y);
  }
}
