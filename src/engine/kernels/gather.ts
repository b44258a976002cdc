import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { engine } from '../engine.ts';
import { DTYPE } from '../tensorflow/dtypes.ts';
import { differentiable } from './differentiable.ts';
import { attr, runOp } from './execute.ts';

/** The type a tensor has on the device; tfjs calls uint8 tensors int32. */
function dtypeOf(x: Tensor): number {
  // Uploads the values if tfjs still holds them.
  engine().backend.getInputTensorIds([x]);
  return engine().backend.tensorMap.get(x.dataId).dtype;
}

/**
 * Slices of x along `axis` by int32 indices [K], without reading the indices back (tfjs's own does, which cannot be recorded). The
 * gradient adds up repeated indices. Indices out of range are an error on the CPU and zeros on the GPU.
 */
export function gather(x: Tensor, indices: Tensor, axis = 0): Tensor {
  const attrs = [
    attr.int('batch_dims', 0),
    attr.type('Tparams', dtypeOf(x)),
    attr.type('Tindices', DTYPE.int32),
    attr.type('Taxis', DTYPE.int32),
  ];
  const take = () => runOp('GatherV2', attrs, [x, indices, tf.scalar(axis, 'int32')]);
  if (x.dtype !== 'float32') return take();
  const [y] = differentiable(
    { x },
    () => ({ results: [take()], saved: [indices] }),
    (dy, [savedIndices]) => ({
      x: () => {
        const order = [axis, ...x.shape.map((_, i) => i).filter((i) => i !== axis)];
        const moved = axis === 0 ? dy : tf.transpose(dy, order);
        const summed = tf.unsortedSegmentSum(moved, savedIndices as tf.Tensor1D, x.shape[axis]!);
        return axis === 0 ? summed : tf.transpose(summed, tf.backend_util.getUndoAxesPermutation(order));
      },
    }),
  );
  return y!;
}

/** A uint8 tensor on the device: images as they were decoded. Only `castFloat` and `gather` may read it. */
export function bytesTensor(data: Uint8Array, shape: readonly number[]): Tensor {
  const { binding, backend } = engine();
  const id = binding.createTensor([...shape], DTYPE.uint8, data);
  return backend.createOutputTensor({ id, shape: [...shape], dtype: DTYPE.uint8 });
}

/** x as float32, whatever its type on the device: the way in for uint8 images. No gradient. */
export function castFloat(x: Tensor): Tensor {
  const from = dtypeOf(x);
  if (from === DTYPE.float32) return x;
  return runOp('Cast', [attr.type('SrcT', from), attr.type('DstT', DTYPE.float32), attr.bool('Truncate', false)], [x]);
}

/** Indicator vectors of int32 labels [N]: float32 [N,depth], all zeros where the label is outside of 0..depth-1. */
export function oneHot(labels: Tensor, depth: number): Tensor {
  return runOp(
    'OneHot',
    [attr.int('axis', -1), attr.type('T', DTYPE.float32), attr.type('TI', DTYPE.int32)],
    [labels, tf.scalar(depth, 'int32'), tf.scalar(1), tf.scalar(0)],
  );
}
