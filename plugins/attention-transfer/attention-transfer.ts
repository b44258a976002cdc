import type { BuildView, ForwardView, ModelDescription, StepView, Strategy, Term } from 'alambic/plugin';
import { AlambicError, definePlugin, inject, injectable, TOKEN, tf, unknownName, z } from 'alambic/plugin';

const Options = z.strictObject({
  pairs: z
    .array(z.tuple([z.string(), z.string()]))
    .min(1)
    .describe('taps [teacher, student] of equal height and width'),
  power: z.number().positive().default(2).describe('exponent p of |activation|^p'),
  weight: z.number().min(0).default(500).describe('weight of the loss (the paper: 1000 / 2)'),
});

/**
 * Attention transfer (arXiv 1612.03928): the student's spatial attention maps, sums of |a|^p over the channels divided by their norm,
 * follow the teacher's. Taps [N,H,W,C]; the loss is the mean squared difference of each item's maps, summed over the pairs: [N].
 */
@injectable()
export class AttentionTransfer implements Strategy {
  constructor(@inject(TOKEN.Options) private readonly options: z.output<typeof Options>) {}

  check({ student, teachers }: BuildView): void {
    for (const [from, to] of this.options.pairs) {
      const a = tapShape(onlyTeacher(teachers), from);
      const b = tapShape(student, to);
      if (a.length === 4 && b.length === 4 && a[1] === b[1] && a[2] === b[2]) continue;
      throw new AlambicError(
        'PRECONDITION',
        `expected taps [N,H,W,C] of equal H and W, got ${from} [${a}] and ${to} [${b}]`,
        {
          hint: '`alambic inspect MODEL` lists the taps with their shapes.',
        },
      );
    }
  }

  terms({ student, teachers }: StepView): Record<string, Term> {
    const difference = (from: string, to: string) =>
      tf.squaredDifference(this.#map(onlyTeacher<ForwardView>(teachers).tap(from)), this.#map(student.tap(to)));
    const losses = this.options.pairs.map(([from, to]) => tf.mean(difference(from, to), 1));
    return { at: { loss: tf.addN(losses), weight: this.options.weight } };
  }

  #map(activation: tf.Tensor): tf.Tensor {
    const flat = tf.reshape(tf.sum(tf.pow(tf.abs(activation), this.options.power), 3), [activation.shape[0]!, -1]);
    // A map of zeros (dead units) has no direction: the epsilon, torch's, keeps it and its gradient at zero.
    return tf.div(flat, tf.sqrt(tf.maximum(tf.sum(tf.square(flat), 1, true), 1e-24)));
  }
}

function onlyTeacher<T>(teachers: Readonly<Record<string, T>>): T {
  const [teacher, another] = Object.values(teachers);
  if (teacher !== undefined && another === undefined) return teacher;
  throw new AlambicError(
    'PRECONDITION',
    `attention-transfer needs one teacher, got ${Object.keys(teachers).join(', ') || 'none'}`,
  );
}

function tapShape({ taps }: ModelDescription, name: string): readonly number[] {
  const tap = taps.find((known) => known.name === name);
  if (tap === undefined)
    throw unknownName(
      'UNKNOWN_TAP',
      'tap',
      name,
      taps.map((known) => known.name),
    );
  return tap.shape;
}

export default definePlugin({
  name: 'attention-transfer',
  kind: 'strategy',
  apiVersion: 1,
  description: "The student's spatial attention maps follow the teacher's.",
  options: Options,
  implementation: AttentionTransfer,
});
