import type { LoadedRecipe } from '../recipe/load.ts';
import { planStage, prepareRun } from './prepare.ts';
import { type StageLayout, StageRunner } from './stage.ts';

/** What a stage would do, found without training it. */
export interface StageCheck extends Pick<StageLayout, 'rows' | 'terms' | 'macs'> {
  readonly stage: string;
  readonly model: string;
  readonly architecture: string;
  readonly parameters: number;
  readonly teachers: Readonly<Record<string, string>>;
  /** [N,H,W,C] -> [N,classes]. */
  readonly inputShape: readonly number[];
  readonly outputShape: readonly number[];
  readonly trainingItems: number;
  readonly batchSize: number;
  readonly epochs: number;
  readonly updates: number;
  /** Rough float operations of the stage: three passes (forward, two backward) over the student and one over each teacher. */
  readonly flops: number;
}

/** What a recipe would do. */
export interface RecipeCheck {
  readonly labels: readonly string[];
  readonly splits: Readonly<Record<string, number>>;
  readonly stages: readonly StageCheck[];
}

const NOTHING = { params: {}, buffers: {} };

/**
 * Builds everything that a recipe names, checks that it fits and says what each stage would do; nothing is trained and no weights are
 * loaded. The engine must be open.
 *
 * @throws AlambicError those of data, models and strategies: PRECONDITION, UNKNOWN_TAP, DATA_SIZE, …
 */
export async function checkRecipe(loaded: LoadedRecipe): Promise<RecipeCheck> {
  const prepared = await prepareRun(loaded, () => undefined);
  const { data, recipe } = prepared;
  try {
    const stages = recipe.stages.map((stage): StageCheck => {
      const plan = planStage(prepared, stage);
      const runner = new StageRunner({
        ...plan,
        initial: NOTHING,
        teachers: Object.fromEntries(
          Object.entries(plan.teachers).map(([name, teacher]) => [name, { ...teacher, state: NOTHING }]),
        ),
        evaluate: undefined,
        evaluationSplit: data.watched ?? 'dev',
        emit: () => undefined,
        save: async () => undefined,
        signal: undefined,
        resume: undefined,
      });
      const { rows, terms, macs } = runner.layout;
      const { description } = plan.student;
      const updates = stage.steps ?? plan.epochs * runner.updatesPerEpoch;
      const items = updates * plan.loader.batchSize * plan.accumulate;
      return {
        stage: stage.name,
        model: stage.model,
        architecture: description.architecture,
        parameters: description.parameterCount,
        teachers: Object.fromEntries(Object.entries(stage.teachers).map(([name, { model }]) => [name, model])),
        inputShape: [plan.loader.batchSize, ...description.inputShape.slice(1)],
        outputShape: [plan.loader.batchSize, ...description.outputShape.slice(1)],
        rows,
        terms,
        macs,
        trainingItems: plan.loader.size,
        batchSize: plan.loader.batchSize,
        epochs: plan.epochs,
        updates,
        flops: 2 * items * (macs + 2 * description.macs),
      };
    });
    const splits = Object.fromEntries(Object.entries(data.splits).map(([name, indices]) => [name, indices.length]));
    return { labels: data.labels, splits, stages };
  } finally {
    await data.close();
  }
}
