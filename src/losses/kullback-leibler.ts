import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import { differentiable, logSoftmax } from '../engine/kernels/index.ts';
import type { Shape } from '../nn/module.ts';
import type { Loss } from '../plugin-host/contract.ts';
import { definePlugin } from '../plugin-host/define.ts';
import { TOKEN } from '../plugin-host/tokens.ts';
import { requireEqualShapes, requireTeacher } from './teacher-shape.ts';

const options = z.strictObject({
  temperature: z
    .number()
    .positive()
    .default(4)
    .meta({ description: 'softens both distributions; the loss is scaled by its square' }),
});

type Options = z.output<typeof options>;

/**
 * `T² Σ_c p_t (log p_t − log p_s)` with `p = softmax(z / T)`, per item [N], of logits [N,C] of student and teacher
 * (arXiv 1503.02531). Summed over the classes; its mean is torch's `kl_div(…, 'batchmean') · T²`. No gradient flows into the teacher.
 * Throws PRECONDITION.
 *
 * @example
 * const loss = tf.mean(kullbackLeibler(student, teacher, { temperature: 4 }));
 */
export function kullbackLeibler(
  student: Tensor,
  teacher: Tensor,
  { temperature = 4 }: { readonly temperature?: number | undefined } = {},
): Tensor {
  requireEqualShapes(student.shape, teacher.shape, 'kullbackLeibler', 2);
  const soften = (logits: Tensor) => logSoftmax(temperature === 1 ? logits : tf.div(logits, temperature));
  return tf.tidy(() => {
    const [loss] = differentiable(
      { student },
      () => {
        const logStudent = soften(student);
        const logTeacher = soften(teacher);
        const teacherShare = tf.exp(logTeacher);
        const divergence = tf.sum(tf.mul(teacherShare, tf.sub(logTeacher, logStudent)), 1);
        return { results: [tf.mul(divergence, temperature ** 2)], saved: [logStudent, teacherShare] };
      },
      // T² from the loss and 1/T from the softened logits leave T.
      (dy, [logStudent, teacherShare]) => ({
        student: () => tf.mul(tf.sub(tf.exp(logStudent!), teacherShare!), tf.expandDims(tf.mul(dy, temperature), 1)),
      }),
    );
    return loss!;
  });
}

@injectable()
class KullbackLeibler implements Loss {
  constructor(@inject(TOKEN.Options) private readonly options: Options) {}

  check({ student, teacher }: { student: Shape; teacher?: Shape }): void {
    requireEqualShapes(student, teacher, 'kullback-leibler', 2);
  }

  call({ student, teacher }: { student: Tensor; teacher?: Tensor }): Tensor {
    return kullbackLeibler(student, requireTeacher(teacher, 'kullback-leibler'), this.options);
  }
}

export default definePlugin({
  name: 'kullback-leibler',
  kind: 'loss',
  apiVersion: 1,
  description: 'T² KL(teacher ‖ student) of softened class distributions.',
  options,
  implementation: KullbackLeibler,
});
