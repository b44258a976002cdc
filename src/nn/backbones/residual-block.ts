import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { kaimingNormal, ones, zeros } from '../init.ts';
import { Activation, BatchNorm, Conv } from '../layers/index.ts';
import type { Init, Module, Scope } from '../module.ts';

export interface ResidualBlockOptions {
  /** Channels of x. */
  readonly inputs: number;
  /** Channels of the 3x3 convolutions; a bottleneck's output has four times as many. */
  readonly width: number;
  readonly stride: number;
  /** Whether the last norm's scale starts at 0, so that the block starts as its shortcut (arXiv 1706.02677). */
  readonly zeroInitLast: boolean;
}

/** He's normal over the outputs: what timm and RepDistiller give the convolutions of a ResNet. */
const convInit = (): Init => kaimingNormal({ mode: 'out' });

/** A 3x3 or 1x1 convolution of a residual network: padded to keep the size, no bias. */
export const residualConv = (filters: number, kernel: 1 | 3 | 7, stride = 1): Conv =>
  new Conv(filters, { kernel, stride, padding: (kernel - 1) / 2, init: convInit() });

/** 1x1 convolution and norm on the shortcut where the shape changes: `downsample.0`, `downsample.1`. */
class Shortcut implements Module {
  readonly #conv: Conv | undefined;
  readonly #norm: BatchNorm | undefined;

  constructor(inputs: number, outputs: number, stride: number) {
    if (inputs === outputs && stride === 1) return;
    this.#conv = residualConv(outputs, 1, stride);
    this.#norm = new BatchNorm();
  }

  call(scope: Scope, x: Tensor): Tensor {
    if (this.#conv === undefined || this.#norm === undefined) return x;
    const y = this.#conv.call(scope.child('0'), x);
    return scope.tap('', this.#norm.call(scope.child('1'), y));
  }
}

const RELU = new Activation('relu');

/** Branch plus shortcut (tap `sum`), then ReLU (tap `relu`, and the block's own path). */
function join(scope: Scope, branch: Tensor, shortcut: Tensor): Tensor {
  const sum = scope.tap('sum', tf.add(branch, shortcut));
  return scope.tap('', RELU.call(scope.child('relu'), sum));
}

const lastNorm = (zeroInitLast: boolean) => new BatchNorm({ scaleInit: zeroInitLast ? zeros() : ones() });

/**
 * Two 3x3 convolutions and a shortcut (arXiv 1512.03385): `conv1`, `bn1`, `conv2`, `bn2`, `downsample`.
 * Taps: each layer's output, `act1`, `sum` before and `relu` after the last ReLU.
 */
export class BasicBlock implements Module {
  static readonly expansion = 1;
  readonly #conv1: Conv;
  readonly #bn1 = new BatchNorm();
  readonly #conv2: Conv;
  readonly #bn2: BatchNorm;
  readonly #shortcut: Shortcut;

  constructor({ inputs, width, stride, zeroInitLast }: ResidualBlockOptions) {
    this.#conv1 = residualConv(width, 3, stride);
    this.#conv2 = residualConv(width, 3);
    this.#bn2 = lastNorm(zeroInitLast);
    this.#shortcut = new Shortcut(inputs, width, stride);
  }

  call(scope: Scope, x: Tensor): Tensor {
    let y = this.#conv1.call(scope.child('conv1'), x);
    y = this.#bn1.call(scope.child('bn1'), y);
    y = RELU.call(scope.child('act1'), y);
    y = this.#conv2.call(scope.child('conv2'), y);
    y = this.#bn2.call(scope.child('bn2'), y);
    return join(scope, y, this.#shortcut.call(scope.child('downsample'), x));
  }
}

/**
 * 1x1, 3x3 and 1x1 convolutions and a shortcut; the stride sits on the 3x3 (ResNet v1.5): `conv1` to `bn3`, `downsample`.
 * Taps as of the basic block, with `act2` besides.
 */
export class Bottleneck implements Module {
  static readonly expansion = 4;
  readonly #conv1: Conv;
  readonly #bn1 = new BatchNorm();
  readonly #conv2: Conv;
  readonly #bn2 = new BatchNorm();
  readonly #conv3: Conv;
  readonly #bn3: BatchNorm;
  readonly #shortcut: Shortcut;

  constructor({ inputs, width, stride, zeroInitLast }: ResidualBlockOptions) {
    const outputs = width * Bottleneck.expansion;
    this.#conv1 = residualConv(width, 1);
    this.#conv2 = residualConv(width, 3, stride);
    this.#conv3 = residualConv(outputs, 1);
    this.#bn3 = lastNorm(zeroInitLast);
    this.#shortcut = new Shortcut(inputs, outputs, stride);
  }

  call(scope: Scope, x: Tensor): Tensor {
    let y = this.#conv1.call(scope.child('conv1'), x);
    y = this.#bn1.call(scope.child('bn1'), y);
    y = RELU.call(scope.child('act1'), y);
    y = this.#conv2.call(scope.child('conv2'), y);
    y = this.#bn2.call(scope.child('bn2'), y);
    y = RELU.call(scope.child('act2'), y);
    y = this.#conv3.call(scope.child('conv3'), y);
    y = this.#bn3.call(scope.child('bn3'), y);
    return join(scope, y, this.#shortcut.call(scope.child('downsample'), x));
  }
}
