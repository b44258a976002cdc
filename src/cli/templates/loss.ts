import { AlambicError, definePlugin, inject, injectable, type Loss, TOKEN, tf, z } from 'alambic/plugin';

const Options = z.strictObject({
  delta: z.number().positive().default(1).describe('difference at which the square goes over into the absolute value'),
});

/** Huber loss between the logits of student and teacher: quadratic near zero, linear beyond `delta`. Logits [N,C] -> [N]. */
@injectable()
export class MyLoss implements Loss {
  constructor(@inject(TOKEN.Options) private readonly options: z.output<typeof Options>) {}

  check({ student, teacher }: Parameters<NonNullable<Loss['check']>>[0]): void {
    if (teacher !== undefined && String(student) === String(teacher)) return;
    throw new AlambicError(
      'PRECONDITION',
      `expected logits of equal shape, got [${student}] and [${teacher ?? 'none'}]`,
    );
  }

  call({ student, teacher }: Parameters<Loss['call']>[0]): tf.Tensor {
    const { delta } = this.options;
    const distance = tf.abs(tf.sub(student, teacher!));
    const near = tf.minimum(distance, delta);
    return tf.mean(tf.add(tf.mul(tf.square(near), 0.5), tf.mul(tf.sub(distance, near), delta)), 1);
  }
}

export default definePlugin({
  name: 'my-loss',
  kind: 'loss',
  apiVersion: 1,
  description: 'Huber loss between the logits of student and teacher.',
  options: Options,
  implementation: MyLoss,
});
