import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { AlambicError } from '../../errors.ts';
import { engine } from '../engine.ts';
import { differentiable } from './differentiable.ts';
import { attr, runOp, T_FLOAT } from './execute.ts';
import { namedPadding, neededBorder, type Padding, type Pair, paddingAttrs, toPair } from './padding.ts';

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
  const stride = toPair(options.stride ?? 1, 'stride');
  const dilation = toPair(options.dilation ?? 1, 'dilation');
  const windows = { size: x.shape.slice(1, 3), window: widenedShape(kernel.shape, dilation), stride };
  const padding = namedPadding(options.padding ?? 'valid', windows);
  const attrsFor = ([dh, dw]: readonly [number, number], padded: Padding = padding) => [
    T_FLOAT,
    attr.int('strides', [1, ...stride, 1]),
    attr.int('dilations', [1, dh, dw, 1]),
    attr.text('data_format', 'NHWC'),
    ...paddingAttrs(padded),
  ];
  const dilated = dilation[0] > 1 || dilation[1] > 1;
  // TensorFlow's CPU kernels have no gradient of dilated convolutions, and its depthwise gradients ignore dilation. Both are those of
  // a plain convolution with zeros between the kernel's weights.
  const spread = dilated && (op !== 'Conv2D' || engine().device.type !== 'GPU');
  const attrs = attrsFor(spread ? [1, 1] : dilation);
  const widen = (weights: Tensor) => (spread ? insertZeros(weights, dilation) : weights);
  // oneDNN has no gradients with explicit padding and TensorFlow's own are slower than padding by hand. cuDNN has them.
  const border =
    typeof padding === 'string' || engine().device.type === 'GPU' ? undefined : neededBorder(padding, windows);
  const plain = attrsFor(spread ? [1, 1] : dilation, 'valid');
  const [y] = differentiable(
    { x, kernel },
    () => {
      const native = op === 'Conv2D' || !spread;
      const result = native ? runOp(op, attrsFor(dilation), [x, kernel]) : runOp(op, attrs, [x, widen(kernel)]);
      return { results: [result], saved: [x, kernel] };
    },
    (dy, [savedX, savedKernel]) => ({
      x: () => {
        const inner = savedX!.shape as [number, number, number, number];
        if (border === undefined) return runOp(`${op}BackpropInput`, attrs, [int32(inner), widen(savedKernel!), dy]);
        const [[top, bottom], [left, right]] = border;
        const outer = [inner[0], top + inner[1] + bottom, left + inner[2] + right, inner[3]];
        return tf.slice(
          runOp(`${op}BackpropInput`, plain, [int32(outer), widen(savedKernel!), dy]),
          [0, top, left, 0],
          inner,
        );
      },
      kernel: () => {
        const shape = widenedShape(savedKernel!.shape, spread ? dilation : [1, 1]);
        // The depthwise gradient of the kernel reads x once, so there a padded copy does not pay.
        const [padded, chosen] =
          border === undefined || op !== 'Conv2D'
            ? [savedX!, attrs]
            : [tf.pad(savedX!, [[0, 0], ...border, [0, 0]]), plain];
        const gradient = runOp(`${op}BackpropFilter`, chosen, [padded, int32(shape), dy]);
        return spread ? tf.stridedSlice(gradient, [0, 0, 0, 0], shape, [...dilation, 1, 1]) : gradient;
      },
    }),
  );
  return y!;
}

function widenedShape([kh, kw, ...rest]: readonly number[], [dh, dw]: readonly [number, number]): number[] {
  return [(kh! - 1) * dh + 1, (kw! - 1) * dw + 1, ...rest];
}

/** The kernel [kh,kw,I,O] with zeros between its weights: as wide as a dilated one reaches. */
function insertZeros(kernel: Tensor, dilation: readonly [number, number]): Tensor {
  const [kh, kw, ci, co] = kernel.shape as [number, number, number, number];
  const [dh, dw] = dilation;
  const cells = tf.pad(tf.reshape(kernel, [kh, 1, kw, 1, ci * co]), [
    [0, 0],
    [0, dh - 1],
    [0, 0],
    [0, dw - 1],
    [0, 0],
  ]);
  return tf.slice(
    tf.reshape(cells, [kh * dh, kw * dw, ci, co]),
    [0, 0, 0, 0],
    widenedShape(kernel.shape, dilation) as [number, number, number, number],
  );
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
