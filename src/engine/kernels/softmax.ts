import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { AlambicError } from '../../errors.ts';
import { DTYPE } from '../tensorflow/dtypes.ts';
import { differentiable } from './differentiable.ts';
import { attr, runOp, runOps, T_FLOAT } from './execute.ts';

/**
 * Cross-entropy of logits [N,C] with class indices, int32 [N], per item [N]. A label of -1 gives loss and gradient 0.
 *
 * @example
 * const loss = sparseSoftmaxCrossEntropy(logits, labels).mean();
 */
export function sparseSoftmaxCrossEntropy(logits: Tensor, labels: Tensor): Tensor {
  if (logits.rank !== 2 || labels.rank !== 1 || labels.shape[0] !== logits.shape[0] || labels.dtype !== 'int32') {
    throw new AlambicError(
      'KERNEL_SHAPE',
      `sparseSoftmaxCrossEntropy expects logits [N,C] and int32 labels [N], got [${logits.shape}] and ${labels.dtype} [${labels.shape}]`,
    );
  }
  const attrs = [T_FLOAT, attr.type('Tlabels', DTYPE.int32)];
  const [y] = differentiable(
    { logits },
    () => {
      // TensorFlow refuses (CPU) or gives NaN for (GPU, XLA) a label out of range, so -1 is computed as class 0 and masked.
      const present = tf.cast(tf.greaterEqual(labels, tf.scalar(0, 'int32')), 'float32');
      const safe = tf.maximum(labels, tf.scalar(0, 'int32'));
      const [loss, gradient] = runOps('SparseSoftmaxCrossEntropyWithLogits', attrs, [logits, safe], 2);
      return { results: [tf.mul(loss!, present)], saved: [gradient!, present] };
    },
    (dy, [gradient, present]) => ({ logits: () => tf.mul(gradient!, tf.expandDims(tf.mul(dy, present!), 1)) }),
  );
  return y!;
}

/** Cross-entropy of logits [N,C] with target distributions [N,C], per item [N]. No gradient flows into the targets. */
export function softmaxCrossEntropy(logits: Tensor, targets: Tensor): Tensor {
  if (logits.rank !== 2 || targets.rank !== 2 || !tf.util.arraysEqual(logits.shape, targets.shape)) {
    throw new AlambicError(
      'KERNEL_SHAPE',
      `softmaxCrossEntropy expects equal shapes [N,C], got [${logits.shape}] and [${targets.shape}]`,
    );
  }
  const [y] = differentiable(
    { logits },
    () => {
      const [loss, gradient] = runOps('SoftmaxCrossEntropyWithLogits', [T_FLOAT], [logits, targets], 2);
      return { results: [loss!], saved: [gradient!] };
    },
    (dy, [gradient]) => ({ logits: () => tf.mul(gradient!, tf.expandDims(dy, 1)) }),
  );
  return y!;
}

/** log(softmax(x)) over the last axis of x [N,C], stable for large values. */
export function logSoftmax(x: Tensor): Tensor {
  if (x.rank !== 2) throw new AlambicError('KERNEL_SHAPE', `logSoftmax expects [N,C], got [${x.shape}]`);
  const [y] = differentiable(
    { x },
    () => {
      const result = runOp('LogSoftmax', [T_FLOAT], [x]);
      return { results: [result], saved: [result] };
    },
    (dy, [savedY]) => ({ x: () => tf.sub(dy, tf.mul(tf.exp(savedY!), tf.sum(dy, 1, true))) }),
  );
  return y!;
}
