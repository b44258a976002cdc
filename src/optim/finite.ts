import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { attr, runOp } from '../engine/kernels/execute.ts';
import { DTYPE } from '../engine/tensorflow/dtypes.ts';
import { AlambicError } from '../errors.ts';
import type { Tensors } from '../nn/module.ts';
import { flattenTree, type Tree, unflattenTree } from '../tree.ts';
import { halfSquareSum } from './clip.ts';

/**
 * Whether all gradients are usable, a bool scalar: no NaN, no infinity, and a norm that float32 can hold (below about 2e19).
 *
 * It looks at the sum of squares, which the global norm needs anyway: in a recorded step the two merge and the check costs one scalar
 * op. The usual `sum(x * 0)` would be wrong here: TensorFlow's graph optimiser replaces `x * 0` by 0.
 */
export function allFinite(gradients: Readonly<Tensors>): Tensor {
  return tf.tidy(() => tf.isFinite(halfSquareSum(gradients)));
}

/**
 * Tree `a` where the bool scalar `flag` holds, else `b`, leaf by leaf; both float32 or int32, of equal structure, shapes and types.
 * Leaves that are the same tensor in both are passed through. Throws TREE_MISMATCH.
 *
 * @example
 * const kept = selectTree(allFinite(gradients), after, before);
 */
export function selectTree<T extends Tree<Tensor>>(flag: Tensor, a: T, b: T): T {
  const left = flattenTree<Tensor>(a);
  const right = new Map(flattenTree<Tensor>(b));
  if (left.length !== right.size) {
    throw new AlambicError(
      'TREE_MISMATCH',
      `expected trees of equal structure, got ${left.length} and ${right.size} leaves`,
    );
  }
  const chosen = left.map(([path, x]) => {
    const y = right.get(path);
    if (y === undefined || x.dtype !== y.dtype || !tf.util.arraysEqual(x.shape, y.shape)) {
      const other = y === undefined ? 'nothing' : `${y.dtype} [${y.shape}]`;
      throw new AlambicError(
        'TREE_MISMATCH',
        `expected equal leaves at ${path}, got ${x.dtype} [${x.shape}] and ${other}`,
      );
    }
    if (x === y) return x;
    const type = x.dtype === 'int32' ? DTYPE.int32 : DTYPE.float32;
    // tf.where would first spread the flag to the shape of the leaf.
    return runOp('SelectV2', [attr.type('T', type)], [flag, x, y]);
  });
  return unflattenTree<Tensor, Tensor>(a, chosen) as T;
}
