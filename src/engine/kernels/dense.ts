import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { AlambicError } from '../../errors.ts';
import { differentiable } from './differentiable.ts';
import { attr, runOp, T_FLOAT } from './execute.ts';

/** Matrix product of a [M,K] and b [K,N] (or their transposes), with gradients of both. */
export function matMul(a: Tensor, b: Tensor, transposeA = false, transposeB = false): Tensor {
  if (a.rank !== 2 || b.rank !== 2 || a.shape[transposeA ? 0 : 1] !== b.shape[transposeB ? 1 : 0]) {
    throw new AlambicError(
      'KERNEL_SHAPE',
      `matMul: [${a.shape}]${transposeA ? 'ᵀ' : ''} x [${b.shape}]${transposeB ? 'ᵀ' : ''} do not fit`,
    );
  }
  const product = (x: Tensor, y: Tensor, tx: boolean, ty: boolean) =>
    runOp('MatMul', [T_FLOAT, attr.bool('transpose_a', tx), attr.bool('transpose_b', ty)], [x, y]);
  const [y] = differentiable(
    { a, b },
    () => ({ results: [product(a, b, transposeA, transposeB)], saved: [a, b] }),
    (dy, [sa, sb]) => ({
      a: () => (transposeA ? product(sb!, dy, transposeB, true) : product(dy, sb!, false, !transposeB)),
      b: () => (transposeB ? product(dy, sa!, true, transposeA) : product(sa!, dy, !transposeA, false)),
    }),
  );
  return y!;
}

/** Adds a bias [C] to the last axis. */
export function addBias(x: Tensor, bias: Tensor): Tensor {
  if (bias.rank !== 1 || bias.shape[0] !== x.shape[x.rank - 1]) {
    throw new AlambicError('KERNEL_SHAPE', `addBias: the bias [${bias.shape}] does not fit x [${x.shape}]`);
  }
  const layout = attr.text('data_format', 'NHWC');
  const [y] = differentiable(
    { x, bias },
    () => ({ results: [runOp('BiasAdd', [T_FLOAT, layout], [x, bias])], saved: [] }),
    (dy) => ({ x: () => tf.clone(dy), bias: () => runOp('BiasAddGrad', [T_FLOAT, layout], [dy]) }),
  );
  return y!;
}

/** Fully connected layer: x [N,I] times kernel [I,O], plus bias [O]. */
export function dense(x: Tensor, kernel: Tensor, bias?: Tensor): Tensor {
  const y = matMul(x, kernel);
  return bias === undefined ? y : addBias(y, bias);
}
