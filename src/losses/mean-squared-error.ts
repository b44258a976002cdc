import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { injectable } from 'inversify';
import { z } from 'zod';
import { differentiable } from '../engine/kernels/index.ts';
import type { Shape } from '../nn/module.ts';
import type { Loss } from '../plugin-host/contract.ts';
import { definePlugin } from '../plugin-host/define.ts';
import { requireEqualShapes, requireTeacher } from './teacher-shape.ts';

/**
 * Mean squared difference of student and teacher over everything but the batch, per item [N]; of logits (arXiv 2105.08919) or features
 * (arXiv 1412.6550). No gradient flows into the teacher. Throws PRECONDITION.
 *
 * @example
 * const loss = tf.mean(meanSquaredError(student, teacher));
 */
export function meanSquaredError(student: Tensor, teacher: Tensor): Tensor {
  requireEqualShapes(student.shape, teacher.shape, 'meanSquaredError');
  if (student.rank === 1) return meanSquaredError(tf.expandDims(student, 1), tf.expandDims(teacher, 1));
  const axes = student.shape.slice(1).map((_, i) => i + 1);
  const values = student.shape.slice(1).reduce((product, n) => product * n, 1);
  return tf.tidy(() => {
    const [loss] = differentiable(
      { student },
      () => {
        const difference = tf.sub(student, teacher);
        return { results: [tf.mean(tf.square(difference), axes)], saved: [difference] };
      },
      (dy, [difference]) => ({
        student: () =>
          tf.mul(difference!, tf.reshape(tf.mul(dy, 2 / values), [student.shape[0]!, ...axes.map(() => 1)])),
      }),
    );
    return loss!;
  });
}

@injectable()
class MeanSquaredError implements Loss {
  check({ student, teacher }: { student: Shape; teacher?: Shape }): void {
    requireEqualShapes(student, teacher, 'mean-squared-error');
  }

  call({ student, teacher }: { student: Tensor; teacher?: Tensor }): Tensor {
    return meanSquaredError(student, requireTeacher(teacher, 'mean-squared-error'));
  }
}

export default definePlugin({
  name: 'mean-squared-error',
  kind: 'loss',
  apiVersion: 1,
  description: 'Mean squared difference of student and teacher, of logits or features.',
  options: z.strictObject({}),
  implementation: MeanSquaredError,
});
