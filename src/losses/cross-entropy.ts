import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import { oneHot, softmaxCrossEntropy, sparseSoftmaxCrossEntropy } from '../engine/kernels/index.ts';
import { AlambicError } from '../errors.ts';
import type { Loss } from '../plugin-host/contract.ts';
import { definePlugin } from '../plugin-host/define.ts';
import { TOKEN } from '../plugin-host/tokens.ts';

const options = z.strictObject({
  labelSmoothing: z
    .number()
    .min(0)
    .lt(1)
    .default(0)
    .meta({ description: 'share of the target that is spread over all classes (arXiv 1512.00567)' }),
});

type Options = z.output<typeof options>;

/**
 * Cross-entropy of logits [N,C] with labels, int32 [N], per item [N]. A label of -1 gives loss and gradient 0. With smoothing ε the
 * target is `(1 − ε) onehot + ε / C`, as in torch (arXiv 1512.00567).
 *
 * @example
 * const loss = tf.mean(crossEntropy(logits, labels, { labelSmoothing: 0.1 }));
 */
export function crossEntropy(
  logits: Tensor,
  labels: Tensor,
  { labelSmoothing = 0 }: { readonly labelSmoothing?: number | undefined } = {},
): Tensor {
  if (labelSmoothing === 0) return sparseSoftmaxCrossEntropy(logits, labels);
  if (logits.rank !== 2 || labels.rank !== 1 || labels.shape[0] !== logits.shape[0] || labels.dtype !== 'int32') {
    throw new AlambicError(
      'LOSS_SHAPE',
      `crossEntropy expects logits [N,C] and int32 labels [N], got [${logits.shape}] and ${labels.dtype} [${labels.shape}]`,
    );
  }
  const classes = logits.shape[1]!;
  return tf.tidy(() => {
    const targets = tf.add(tf.mul(oneHot(labels, classes), 1 - labelSmoothing), labelSmoothing / classes);
    const present = tf.cast(tf.greaterEqual(labels, tf.scalar(0, 'int32')), 'float32');
    return tf.mul(softmaxCrossEntropy(logits, targets), present);
  });
}

@injectable()
class CrossEntropy implements Loss {
  constructor(@inject(TOKEN.Options) private readonly options: Options) {}

  check({ student, classes }: { student: readonly number[]; classes: number }): void {
    if (student.length !== 2 || student[1] !== classes) {
      throw new AlambicError('PRECONDITION', `cross-entropy needs logits [N,${classes}], got [${student}]`, {
        hint: 'Use it on the output of a network with as many classes as the data has labels.',
      });
    }
  }

  call({ student, labels }: { student: Tensor; labels?: Tensor }): Tensor {
    if (labels === undefined) {
      throw new AlambicError('PRECONDITION', 'cross-entropy needs labels, this strategy gives none', {
        hint: 'Use a loss between student and teacher, for instance kullback-leibler.',
      });
    }
    return crossEntropy(student, labels, this.options);
  }
}

export default definePlugin({
  name: 'cross-entropy',
  kind: 'loss',
  apiVersion: 1,
  description: 'Cross-entropy of logits with labels, with label smoothing.',
  options,
  implementation: CrossEntropy,
});
