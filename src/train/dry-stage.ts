import type { RecipeStage } from '../recipe/schema.ts';
import { type PreparedRun, planStage, type StagePlan } from './prepare.ts';
import { StageRunner } from './stage.ts';
import type { StageInput } from './stage-input.ts';

/**
 * A stage of a recipe with everything but values: its groups, terms and shapes are known, and it cannot be run.
 *
 * Throws what the stage would throw at its beginning.
 */
export function dryStage(
  prepared: PreparedRun,
  stage: RecipeStage,
  options: { readonly emit?: StageInput['emit']; readonly limitUpdates?: number | undefined } = {},
): { plan: StagePlan; runner: StageRunner } {
  const plan = planStage(prepared, stage, options.limitUpdates);
  const nothing = { params: {}, buffers: {} };
  const runner = new StageRunner({
    ...plan,
    initial: nothing,
    teachers: Object.fromEntries(
      Object.entries(plan.teachers).map(([name, teacher]) => [name, { ...teacher, state: nothing }]),
    ),
    evaluate: undefined,
    evaluationSplit: prepared.data.watched ?? 'dev',
    emit: options.emit ?? (() => undefined),
    save: async () => undefined,
    signal: undefined,
    resume: undefined,
  });
  return { plan, runner };
}
