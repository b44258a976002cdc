import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { AlambicError } from '../../errors.ts';
import { differentiable } from './differentiable.ts';
import { attr, runOp, T_FLOAT } from './execute.ts';
import { type Padding, type Pair, paddingAttrs, toPair } from './padding.ts';

export interface ConvolutionOptions {
  /** @default 1 */
  readonly stride?: Pair;
  /** @default 'valid' */
  readonly padding?: Padding;
  /** @default 1 */
  readonly dilation?: Pair;
}

const int32 = (values: readonly number[]) => tf.tensor1d(values as number[], 'int32');

function convolve(name: string, op: string, x: Tensor, kernel: Tensor, options: ConvolutionOptions): Tensor {
  if (x.rank !== 4 || kernel.rank !== 4) {
    throw new AlambicError(
      'KERNEL_SHAPE',
      `${name} expects x [N,H,W,C] and a kernel of rank 4, got [${x.shape}] and [${kernel.shape}]`,
    );
  }
  if (x.shape[3] !== kernel.shape[2]) {
    throw new AlambicError(
      'KERNEL_SHAPE',
      `${name}: the kernel [${kernel.shape}] takes ${kernel.shape[2]} channels, x [${x.shape}] has ${x.shape[3]}`,
    );
  }
  const [sh, sw] = toPair(options.stride ?? 1, 'stride');
  const [dh, dw] = toPair(options.dilation ?? 1, 'dilation');
  const attrs = [
    T_FLOAT,
    attr.int('strides', [1, sh, sw, 1]),
    attr.int('dilations', [1, dh, dw, 1]),
    attr.text('data_format', 'NHWC'),
    ...paddingAttrs(options.padding ?? 'valid'),
  ];
  const [y] = differentiable(
    { x, kernel },
    () => ({ results: [runOp(op, attrs, [x, kernel])], saved: [x, kernel] }),
    (dy, [savedX, savedKernel]) => ({
      x: () => runOp(`${op}BackpropInput`, attrs, [int32(savedX!.shape), savedKernel!, dy]),
      kernel: () => runOp(`${op}BackpropFilter`, attrs, [savedX!, int32(savedKernel!.shape), dy]),
    }),
  );
  return y!;
}

/**
 * Convolution of x [N,H,W,I] with a kernel [kh,kw,I,O], explicit padding included, with gradients of both.
 *
 * @example
 * conv2d(images, kernel, { stride: 2, padding: 1 }); // torch's Conv2d(…, stride=2, padding=1)
 */
export function conv2d(x: Tensor, kernel: Tensor, options: ConvolutionOptions = {}): Tensor {
  return convolve('conv2d', 'Conv2D', x, kernel, options);
}

/** Depthwise convolution of x [N,H,W,C] with a kernel [kh,kw,C,1], explicit padding included, with gradients of both. */
export function depthwiseConv2d(x: Tensor, kernel: Tensor, options: ConvolutionOptions = {}): Tensor {
  return convolve('depthwiseConv2d', 'DepthwiseConv2dNative', x, kernel, options);
}
