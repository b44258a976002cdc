import { inject, injectable } from 'inversify';
import { z } from 'zod';
import { AlambicError } from '../errors.ts';
import { crossEntropy } from '../losses/cross-entropy.ts';
import type { BuildView, StepView, Strategy, Term } from '../plugin-host/contract.ts';
import { definePlugin } from '../plugin-host/define.ts';
import { TOKEN } from '../plugin-host/tokens.ts';

const Options = z.strictObject({
  weight: z.number().min(0).default(1).meta({ description: 'weight of the cross-entropy' }),
  labelSmoothing: z
    .number()
    .min(0)
    .lt(1)
    .default(0)
    .meta({ description: 'share of the target that is spread over all classes (arXiv 1512.00567)' }),
});

/**
 * Cross-entropy of the student's logits with the labels. Items without a label do not count.
 *
 * @example
 * strategies: [{ use: supervised, labelSmoothing: 0.1 }]
 */
@injectable()
export class Supervised implements Strategy {
  readonly #options: z.output<typeof Options>;

  constructor(@inject(TOKEN.Options) options: z.output<typeof Options>) {
    this.#options = options;
  }

  check(build: BuildView): void {
    if (build.labels.length < 2) {
      throw new AlambicError(
        'PRECONDITION',
        `supervised needs at least 2 classes, the data has ${build.labels.length}`,
        {
          hint: 'A picture folder has one folder for each class; check that `folder` names the one above them.',
        },
      );
    }
    const classes = build.student.outputShape[1];
    if (build.student.outputShape.length !== 2 || classes !== build.labels.length) {
      throw new AlambicError(
        'PRECONDITION',
        `supervised needs logits [N,${build.labels.length}], one per label; ${build.student.architecture} gives [${build.student.outputShape}]`,
        { hint: 'The network must have as many classes as the data has labels.' },
      );
    }
  }

  terms({ student, batch }: StepView): Record<string, Term> {
    const { weight, labelSmoothing } = this.#options;
    return {
      ce: { loss: crossEntropy(student.output, batch.labels, { labelSmoothing }), over: 'labelled', weight },
    };
  }
}

export default definePlugin({
  name: 'supervised',
  kind: 'strategy',
  apiVersion: 1,
  description: 'Cross-entropy with the labels.',
  options: Options,
  implementation: Supervised,
});
