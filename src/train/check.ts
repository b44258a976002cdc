import { checkData, type DataReport } from '../data/checks.ts';
import { openEngine } from '../engine/engine.ts';
import type { Mode } from '../nn/module.ts';
import type { GroupRow, RunEvent } from '../plugin-host/contract.ts';
import type { LoadedRecipe } from '../recipe/load.ts';
import { dryStage } from './dry-stage.ts';
import { prepareRun } from './prepare.ts';

/** One network of a recipe, as a dry run finds it. */
export interface CheckedModel {
  readonly name: string;
  readonly architecture: string;
  readonly inputShape: readonly number[];
  readonly outputShape: readonly number[];
  readonly parameters: number;
  /** Multiply-accumulates of one image. */
  readonly macs: number;
}

/** One stage, as it would train. */
export interface CheckedStage {
  readonly name: string;
  readonly model: string;
  readonly teachers: Readonly<Record<string, { readonly model: string; readonly mode: Mode }>>;
  readonly items: number;
  readonly labelled: number;
  readonly epochs: number;
  readonly updatesPerEpoch: number;
  readonly updates: number;
  readonly groups: readonly GroupRow[];
  readonly terms: readonly { readonly name: string; readonly weight: number; readonly shape: readonly number[] }[];
  /** Rate at the first, middle and last update. */
  readonly rates: readonly [number, number, number];
  /** Multiply-accumulates of the forward passes of the whole stage, teachers included; a backward pass costs about twice its forward. */
  readonly forwardMacs: number;
}

export interface CheckReport {
  readonly labels: readonly string[];
  readonly splits: Readonly<Record<string, number>>;
  readonly inputSize: readonly number[];
  readonly networkSize: readonly number[];
  readonly data: DataReport;
  readonly models: readonly CheckedModel[];
  readonly stages: readonly CheckedStage[];
  /** Warnings that came up on the way. */
  readonly warnings: readonly { readonly code: string; readonly message: string }[];
}

/** Images that are read to look at the data; enough to see its range, few enough to take no time. */
const IMAGES_LOOKED_AT = 2000;

/**
 * Everything that a run would find out before its first step, without training: data, networks, groups, terms, shapes, rates, cost.
 *
 * Throws what the run would throw: unknown names, shapes that do not fit, preconditions of strategies and losses.
 *
 * @example
 * const { stages } = await checkRecipe(await loadRecipe('kd.yaml', {}, createHost()));
 */
export async function checkRecipe(
  loaded: LoadedRecipe,
  options: { readonly engine?: { readonly device?: string }; readonly say?: (line: string) => void } = {},
): Promise<CheckReport> {
  const { recipe } = loaded;
  await openEngine({
    device: options.engine?.device ?? recipe.engine.device,
    ...(options.say === undefined ? {} : { say: options.say }),
  });
  const warnings: { code: string; message: string }[] = [];
  const emit = (event: RunEvent) => {
    if (event.type === 'warning') warnings.push({ code: event.code, message: event.message });
  };
  const prepared = await prepareRun(loaded, emit);
  try {
    const { data, models } = prepared;
    const stages = recipe.stages.map((stage): CheckedStage => {
      const { plan, runner } = dryStage(prepared, stage, { emit });
      const { layout, updates, updatesPerEpoch } = runner;
      const rateAt = (step: number) => plan.optimizer.baseRate * plan.schedule.factor(step, updates, updatesPerEpoch);
      return {
        name: plan.name,
        model: stage.model,
        teachers: Object.fromEntries(
          Object.entries(plan.teachers).map(([name, teacher]) => [name, { model: teacher.name, mode: teacher.mode }]),
        ),
        items: plan.loader.size,
        labelled: data.labelledItems({
          labelled: stage.data.labelled ?? recipe.data.labelled,
          use: stage.data.items,
          repeat: stage.data.repeat,
        }),
        epochs: plan.epochs,
        updatesPerEpoch,
        updates,
        groups: layout.rows,
        terms: layout.terms,
        rates: [rateAt(0), rateAt(Math.floor(updates / 2)), rateAt(Math.max(0, updates - 1))],
        forwardMacs: layout.macs * updates * plan.accumulate * stage.batch,
      };
    });
    return {
      labels: data.labels,
      splits: Object.fromEntries(Object.entries(data.splits).map(([name, indices]) => [name, indices.length])),
      inputSize: data.inputSize,
      networkSize: prepared.networkSize,
      data: await checkData(data.source, data.splits, { limit: IMAGES_LOOKED_AT }),
      models: [...models.values()].map(({ name, description }) => ({
        name,
        architecture: description.architecture,
        inputShape: description.inputShape,
        outputShape: description.outputShape,
        parameters: description.parameterCount,
        macs: description.macs,
      })),
      stages,
      warnings,
    };
  } finally {
    await prepared.data.close();
  }
}
