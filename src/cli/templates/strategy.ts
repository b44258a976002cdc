import {
  definePlugin,
  inject,
  injectable,
  kernels,
  type StepView,
  type Strategy,
  type Term,
  TOKEN,
  tf,
  z,
} from 'alambic/plugin';

const Options = z.strictObject({
  weight: z.number().min(0).default(0.1).describe('weight of the penalty'),
});

/** Penalty on confident output: the negative entropy of the student's classes, sum of p log p (arXiv 1701.06548). [N] in -log C .. 0. */
@injectable()
export class MyStrategy implements Strategy {
  constructor(@inject(TOKEN.Options) private readonly options: z.output<typeof Options>) {}

  terms({ student }: StepView): Record<string, Term> {
    const log = kernels.logSoftmax(student.output);
    return { confidence: { loss: tf.sum(tf.mul(tf.exp(log), log), 1), weight: this.options.weight } };
  }
}

export default definePlugin({
  name: 'my-strategy',
  kind: 'strategy',
  apiVersion: 1,
  description: 'Penalty on confident output.',
  options: Options,
  implementation: MyStrategy,
});
