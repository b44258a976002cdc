import { AlambicError, definePlugin, inject, injectable, kernels, type Loss, TOKEN, tf, z } from 'alambic/plugin';

const Options = z.strictObject({
  temperature: z
    .number()
    .positive()
    .default(1)
    .meta({ description: 'softens both distributions; the loss is scaled by its square' }),
});

/**
 * T² times the Jensen-Shannon divergence between the softened class distributions of student and teacher (the symmetric case of
 * arXiv 2306.13649): half of KL(p ‖ m) + KL(q ‖ m) with m = (p + q) / 2. Unlike KL it is symmetric and at most T² log 2, so a teacher
 * that is sure of a wrong class cannot pull without bound. Logits [N,C] -> [N].
 */
@injectable()
export class JensenShannon implements Loss {
  constructor(@inject(TOKEN.Options) private readonly options: z.output<typeof Options>) {}

  check({ student, teacher }: Parameters<NonNullable<Loss['check']>>[0]): void {
    if (student.length === 2 && teacher?.length === 2 && student[1] === teacher[1]) return;
    throw new AlambicError(
      'PRECONDITION',
      `expected logits [N,C] of equal C, got [${student}] and [${teacher ?? 'none'}]`,
      {
        hint: 'Student and teacher must know the same classes.',
      },
    );
  }

  call({ student, teacher }: Parameters<Loss['call']>[0]): tf.Tensor {
    const { temperature } = this.options;
    const logP = kernels.logSoftmax(tf.div(student, temperature));
    const logQ = kernels.logSoftmax(tf.div(teacher!, temperature));
    // log m from the logarithms: the probabilities themselves may be too small for float32.
    const logM = tf.sub(tf.logSumExp(tf.stack([logP, logQ]), 0), Math.LN2);
    const divergence = (log: tf.Tensor) => tf.sum(tf.mul(tf.exp(log), tf.sub(log, logM)), -1);
    return tf.mul(tf.add(divergence(logP), divergence(logQ)), temperature ** 2 / 2);
  }
}

export default definePlugin({
  name: 'jensen-shannon',
  kind: 'loss',
  apiVersion: 1,
  description: 'Symmetric, bounded divergence between the softened class distributions of student and teacher.',
  options: Options,
  implementation: JensenShannon,
});
