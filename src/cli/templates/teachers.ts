import { AlambicError, definePlugin, inject, injectable, type KindContracts, TOKEN, tf, z } from 'alambic/plugin';

const Options = z.strictObject({
  weights: z.array(z.number().min(0)).min(1).optional().describe('share of each teacher, in order; default: equal'),
});

/** Weighted mean of the teachers' logits [N,C]. */
@injectable()
export class MyTeachers implements Readonly<KindContracts['teachers']> {
  constructor(@inject(TOKEN.Options) private readonly options: z.output<typeof Options>) {}

  combine(outputs: readonly tf.Tensor[]): tf.Tensor {
    const weights = this.options.weights ?? outputs.map(() => 1);
    const sum = weights.reduce((a, b) => a + b, 0);
    if (weights.length !== outputs.length || sum === 0) {
      throw new AlambicError(
        'PRECONDITION',
        `expected ${outputs.length} weights, one for each teacher, got [${weights}]`,
      );
    }
    return tf.addN(outputs.map((output, i) => tf.mul(output, weights[i]! / sum)));
  }
}

export default definePlugin({
  name: 'my-teachers',
  kind: 'teachers',
  apiVersion: 1,
  description: "Weighted mean of the teachers' logits.",
  options: Options,
  implementation: MyTeachers,
});
