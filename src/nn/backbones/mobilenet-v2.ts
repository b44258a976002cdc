import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { fanUniform, kaimingNormal, zeros } from '../init.ts';
import { Activation, BatchNorm, Conv, Dense, DepthwiseConv, Dropout, GlobalPool } from '../layers/index.ts';
import type { Backbone, DepthGroup, Module, Scope } from '../module.ts';

export interface MobileNetV2Options {
  readonly architecture: string;
  /** [H, W, C]. */
  readonly inputSize: readonly [number, number, number];
  readonly classes: number;
  /** Multiplies the channels of every layer; the head keeps at least 1280. @default 1 */
  readonly width?: number;
  /** Stride of the first convolution; 1 for small pictures. @default 2 */
  readonly stemStride?: 1 | 2;
  /** Dropout before the classifier, 0..1. @default 0 */
  readonly dropRate?: number;
}

/** Stages of the paper's table 2. */
const STAGES = [
  { expansion: 1, channels: 16, blocks: 1, stride: 1 },
  { expansion: 6, channels: 24, blocks: 2, stride: 2 },
  { expansion: 6, channels: 32, blocks: 3, stride: 2 },
  { expansion: 6, channels: 64, blocks: 4, stride: 2 },
  { expansion: 6, channels: 96, blocks: 3, stride: 1 },
  { expansion: 6, channels: 160, blocks: 3, stride: 2 },
  { expansion: 6, channels: 320, blocks: 1, stride: 1 },
] as const;

/** Channels times width, rounded to the nearest multiple of 8 that is at least 8 and at most 10 % smaller; timm's rule. */
export function roundChannels(channels: number, width = 1): number {
  const wanted = channels * width;
  const rounded = Math.max(8, Math.floor((wanted + 4) / 8) * 8);
  return rounded < 0.9 * wanted ? rounded + 8 : rounded;
}

// timm's: He's normal over the outputs, of a depthwise kernel over its kh*kw.
const pointwise = (filters: number) => new Conv(filters, { kernel: 1, init: kaimingNormal({ mode: 'out' }) });
const depthwise = (stride: number) =>
  new DepthwiseConv({ kernel: 3, stride, padding: 1, init: kaimingNormal({ mode: 'out', depthwise: true }) });

const RELU6 = new Activation('relu6');

/** x + y where the block changes neither size nor channels (tap: the block's own path, before and without an activation). */
function joinShortcut(scope: Scope, x: Tensor, y: Tensor, residual: boolean): Tensor {
  return scope.tap('', residual ? tf.add(y, x) : y);
}

/** Depthwise 3x3, then 1x1, the block that does not expand: `conv_dw`, `bn1`, `conv_pw`, `bn2`. */
class DepthwiseSeparable implements Module {
  readonly #residual: boolean;
  readonly #depthwise: DepthwiseConv;
  readonly #bn1 = new BatchNorm();
  readonly #pointwise: Conv;
  readonly #bn2 = new BatchNorm();

  constructor(inputs: number, outputs: number, stride: number) {
    this.#residual = stride === 1 && inputs === outputs;
    this.#depthwise = depthwise(stride);
    this.#pointwise = pointwise(outputs);
  }

  call(scope: Scope, x: Tensor): Tensor {
    let y = this.#depthwise.call(scope.child('conv_dw'), x);
    y = RELU6.call(scope.child('act1'), this.#bn1.call(scope.child('bn1'), y));
    y = this.#pointwise.call(scope.child('conv_pw'), y);
    y = this.#bn2.call(scope.child('bn2'), y);
    return joinShortcut(scope, x, y, this.#residual);
  }
}

/** 1x1 expansion, depthwise 3x3, linear 1x1 projection: `conv_pw`, `bn1`, `conv_dw`, `bn2`, `conv_pwl`, `bn3`. */
class InvertedResidual implements Module {
  readonly #residual: boolean;
  readonly #expand: Conv;
  readonly #bn1 = new BatchNorm();
  readonly #depthwise: DepthwiseConv;
  readonly #bn2 = new BatchNorm();
  readonly #project: Conv;
  readonly #bn3 = new BatchNorm();

  constructor(inputs: number, outputs: number, stride: number, expansion: number) {
    this.#residual = stride === 1 && inputs === outputs;
    this.#expand = pointwise(roundChannels(inputs * expansion));
    this.#depthwise = depthwise(stride);
    this.#project = pointwise(outputs);
  }

  call(scope: Scope, x: Tensor): Tensor {
    let y = this.#expand.call(scope.child('conv_pw'), x);
    y = RELU6.call(scope.child('act1'), this.#bn1.call(scope.child('bn1'), y));
    y = this.#depthwise.call(scope.child('conv_dw'), y);
    y = RELU6.call(scope.child('act2'), this.#bn2.call(scope.child('bn2'), y));
    y = this.#project.call(scope.child('conv_pwl'), y);
    y = this.#bn3.call(scope.child('bn3'), y);
    return joinShortcut(scope, x, y, this.#residual);
  }
}

/**
 * MobileNetV2 (arXiv 1801.04381) with timm's names: `conv_stem`, `bn1`, `blocks.1.0.conv_pw`, …, `conv_head`, `bn2`, `classifier`.
 *
 * Taps: the output of every layer by its path, `stem`, each block (`blocks.2.1`; `act1`, `act2` within), each stage (`blocks.2`), `head`
 * and `features` [N,C], the pooled features before the classifier.
 *
 * @example
 * new MobileNetV2({ architecture: 'mobilenetv2_100', inputSize: [224, 224, 3], classes: 1000 });
 */
export class MobileNetV2 implements Backbone {
  readonly architecture: string;
  readonly inputSize: readonly [number, number, number];
  readonly classes: number;
  readonly depthGroups: readonly DepthGroup[];
  readonly classifier = 'classifier';
  readonly featureTap = 'features';
  readonly #stem: Conv;
  readonly #bn1 = new BatchNorm();
  readonly #stages: readonly (readonly Module[])[];
  readonly #head: Conv;
  readonly #bn2 = new BatchNorm();
  readonly #pool = new GlobalPool();
  readonly #drop: Dropout | undefined;
  readonly #classifier: Dense;

  constructor({ width = 1, stemStride = 2, dropRate = 0, ...options }: MobileNetV2Options) {
    this.architecture = options.architecture;
    this.inputSize = options.inputSize;
    this.classes = options.classes;
    let inputs = roundChannels(32, width);
    this.#stem = new Conv(inputs, { kernel: 3, stride: stemStride, padding: 1, init: kaimingNormal({ mode: 'out' }) });
    this.#stages = STAGES.map((stage) =>
      Array.from({ length: stage.blocks }, (_, i) => {
        const outputs = roundChannels(stage.channels, width);
        const stride = i === 0 ? stage.stride : 1;
        const block =
          stage.expansion === 1
            ? new DepthwiseSeparable(inputs, outputs, stride)
            : new InvertedResidual(inputs, outputs, stride, stage.expansion);
        inputs = outputs;
        return block;
      }),
    );
    this.#head = pointwise(Math.max(1280, roundChannels(1280, width)));
    this.#drop = dropRate > 0 ? new Dropout(dropRate) : undefined;
    this.#classifier = new Dense(options.classes, { init: fanUniform({ mode: 'out' }), biasInit: zeros() });
    this.depthGroups = [
      { name: 'stem', prefixes: ['conv_stem', 'bn1'] },
      ...STAGES.flatMap(({ blocks }, s) =>
        Array.from({ length: blocks }, (_, i) => ({ name: `blocks.${s}.${i}`, prefixes: [`blocks.${s}.${i}`] })),
      ),
      { name: 'head', prefixes: ['conv_head', 'bn2'] },
      { name: 'classifier', prefixes: ['classifier'] },
    ];
  }

  call(scope: Scope, x: Tensor): Tensor {
    let y = this.#stem.call(scope.child('conv_stem'), x);
    y = RELU6.call(scope.child('act1'), this.#bn1.call(scope.child('bn1'), y));
    scope.tap('stem', y);
    const blocks = scope.child('blocks');
    for (const [s, stage] of this.#stages.entries()) {
      const inner = blocks.child(String(s));
      for (const [i, block] of stage.entries()) y = block.call(inner.child(String(i)), y);
      inner.tap('', y);
    }
    y = this.#head.call(scope.child('conv_head'), y);
    y = RELU6.call(scope.child('act2'), this.#bn2.call(scope.child('bn2'), y));
    scope.tap('head', y);
    y = this.#pool.call(scope.child('features'), y);
    if (this.#drop !== undefined) y = this.#drop.call(scope.child('drop'), y);
    return this.#classifier.call(scope.child('classifier'), y);
  }
}
