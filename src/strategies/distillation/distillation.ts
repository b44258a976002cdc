import { inject, injectable } from 'inversify';
import { z } from 'zod';
import { AlambicError, unknownName } from '../../errors.ts';
import { kullbackLeibler } from '../../losses/kullback-leibler.ts';
import type { BuildView, Loss, StepView, Strategy, Term } from '../../plugin-host/contract.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { type CreatePlugin, TOKEN } from '../../plugin-host/tokens.ts';
import { useOf } from '../../plugin-host/use.ts';

const Options = z.strictObject({
  temperature: z
    .number()
    .positive()
    .default(4)
    .meta({ description: 'softens both distributions; the loss is scaled by its square' }),
  weight: z.number().min(0).default(1).meta({ description: 'weight of the distillation loss' }),
  teacher: z.string().optional().meta({ description: "one of the stage's teachers; not needed where there is one" }),
  loss: useOf('loss').optional().meta({
    description: 'a loss plugin between the logits of student and teacher, instead of T² KL(teacher ‖ student)',
  }),
  start: z.number().min(0).max(1).default(0).meta({ description: 'share of the stage from which the loss counts' }),
  stop: z.number().min(0).max(1).default(1).meta({
    description: 'share of the stage up to which the loss counts (early-stopped distillation, arXiv 1910.01348)',
  }),
});

/**
 * Knowledge distillation: T² KL(teacher ‖ student) of the softened class distributions of one teacher, over all items, labelled or not
 * (arXiv 1503.02531). The KL is summed over the classes and averaged over the items.
 *
 * @example
 * strategies: [{ use: supervised, weight: 0.1 }, { use: distillation, temperature: 4, weight: 0.9 }]
 */
@injectable()
export class Distillation implements Strategy {
  readonly #options: z.output<typeof Options>;
  readonly #loss: Loss | undefined;

  constructor(@inject(TOKEN.Options) options: z.output<typeof Options>, @inject(TOKEN.Create) create: CreatePlugin) {
    this.#options = options;
    this.#loss = options.loss === undefined ? undefined : create('loss', options.loss);
  }

  check(build: BuildView): void {
    const teacher = this.#teacherOf(build.teachers);
    const { student } = build;
    const classes = build.teachers[teacher]!.outputShape;
    if (student.outputShape.length !== 2 || classes.length !== 2 || student.outputShape[1] !== classes[1]) {
      throw new AlambicError(
        'PRECONDITION',
        `distillation compares logits: student ${student.architecture} gives [${student.outputShape}], teacher "${teacher}" [${classes}]`,
        { hint: 'Both must be trained on the same classes.' },
      );
    }
    this.#loss?.check?.({
      student: [build.batchSize, student.outputShape[1]!],
      teacher: [build.batchSize, classes[1]!],
      classes: build.labels.length,
      batchSize: build.batchSize,
    });
  }

  terms({ student, teachers, batch }: StepView): Record<string, Term> {
    const teacher = teachers[this.#teacherOf(teachers)]!.output;
    const { temperature, weight } = this.#options;
    const loss =
      this.#loss === undefined
        ? kullbackLeibler(student.output, teacher, { temperature })
        : this.#loss.call({ student: student.output, teacher, labels: batch.labels });
    return { kd: { loss, weight } };
  }

  weights(done: number): Record<string, number> {
    const { start, stop, weight } = this.#options;
    return { kd: done >= start && done <= stop ? weight : 0 };
  }

  #teacherOf(teachers: Readonly<Record<string, unknown>>): string {
    const names = Object.keys(teachers);
    const { teacher } = this.#options;
    if (teacher !== undefined) {
      if (!names.includes(teacher)) throw unknownName('UNKNOWN_TEACHER', 'teacher', teacher, names);
      return teacher;
    }
    if (names.length !== 1) {
      throw new AlambicError(
        'PRECONDITION',
        `distillation needs one teacher, the stage has ${names.length === 0 ? 'none' : names.join(', ')}`,
        {
          hint:
            names.length === 0
              ? 'Add `teachers: { teacher: { model: … } }` to the stage.'
              : 'Say which by `teacher: name`.',
        },
      );
    }
    return names[0]!;
  }
}

export default definePlugin({
  name: 'distillation',
  kind: 'strategy',
  apiVersion: 1,
  description: "One teacher's softened class distributions (KL times T²), or any loss plugin between logits.",
  options: Options,
  implementation: Distillation,
});
