import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, platform, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { type EngineMode, engine, openEngine } from '../engine/engine.ts';
import { AlambicError } from '../errors.ts';
import type { ModelState } from '../nn/module.ts';
import type { GroupRow, Listener, RunEvent } from '../plugin-host/contract.ts';
import { type LoadedRecipe, saveResolved } from '../recipe/load.ts';
import type { RecipeStage } from '../recipe/schema.ts';
import type { Checkpoint } from './checkpoint.ts';
import { CheckpointKeeper } from './checkpoint-keeper.ts';
import { findLatestCheckpoint } from './checkpoint-search.ts';
import { dryStage } from './dry-stage.ts';
import { measure } from './evaluate.ts';
import { Evaluation } from './evaluation.ts';
import { disposeModel, fingerprint } from './fingerprint.ts';
import { loadModel } from './model-files.ts';
import { firstValues, type PreparedRun, planStage, prepareRun, type StagePlan, stateOf } from './prepare.ts';
import { readStages, writeRunSummary } from './run-files.ts';
import { openRunFolder, type RunFolder } from './run-folder.ts';
import type { RunSummary, StageSummary } from './run-result.ts';
import { StageRunner } from './stage.ts';
import type { StagePoint } from './stage-input.ts';
import { summariseStage } from './stage-summary.ts';

export { readRunSummary } from './run-files.ts';

export interface RunOptions {
  /** Run folder. @default the recipe's, else `runs/<name>-<time>` */
  readonly folder?: string;
  /** Go on with the run in `folder`. @default false */
  readonly resume?: boolean;
  readonly listeners?: readonly Listener[];
  /** When it fires, the run saves a checkpoint after the present update and returns. */
  readonly signal?: AbortSignal;
  readonly engine?: { readonly mode?: EngineMode; readonly device?: string };
  /** Ends every stage after so many updates, and evaluates one batch: a dry run of everything. */
  readonly limitUpdates?: number;
  /** Text of the command line, for the report. */
  readonly command?: string;
  readonly say?: (line: string) => void;
}

export interface RunResult {
  readonly folder: string;
  readonly summary: RunSummary;
  /** Whether the signal stopped it; `--resume` goes on. */
  readonly interrupted: boolean;
}

const STATE_FILE = 'state.safetensors';

/**
 * Runs a recipe: its stages in order, with checkpoints, evaluation, a result and the models in the run folder.
 *
 * Throws the errors of the recipe, the data and the stages; nothing that was saved before is lost.
 *
 * @example
 * const loaded = await loadRecipe('recipes/digits/kd.yaml', {}, createHost());
 * const { summary } = await runRecipe(loaded);
 */
export async function runRecipe(loaded: LoadedRecipe, options: RunOptions = {}): Promise<RunResult> {
  return new Run(loaded, options).run();
}

const VERSION = (
  JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }
).version;

/** What a checkpoint's manifest says of the run. */
interface SavedPoint {
  readonly stage: string;
  readonly stageIndex: number;
  readonly point: StagePoint;
  readonly seconds: number;
}

class Run {
  readonly #loaded: LoadedRecipe;
  readonly #options: RunOptions;
  readonly #listeners: Listener[];
  readonly #models = new Map<string, ModelState>();
  #folder!: RunFolder;
  #prepared!: PreparedRun;
  #evaluation!: Evaluation;
  #keeper!: CheckpointKeeper;
  #started = performance.now();
  #summaries: StageSummary[] = [];
  #listenerError: { readonly cause: unknown } | undefined;

  constructor(loaded: LoadedRecipe, options: RunOptions) {
    this.#loaded = loaded;
    this.#options = options;
    this.#listeners = [...(options.listeners ?? [])];
  }

  async run(): Promise<RunResult> {
    const { recipe, host } = this.#loaded;
    const { options } = { options: this.#options };
    const folder = options.folder ?? recipe.run.folder;
    this.#folder = await openRunFolder({
      recipe: recipe.name,
      resolvedRecipe: saveResolved(recipe),
      ...(folder === undefined ? {} : { folder }),
      resume: options.resume ?? false,
    });
    try {
      const scope = host.openScope({ seed: recipe.seed, baseFolder: this.#folder.folder });
      for (const use of [{ use: 'jsonl' }, ...recipe.run.loggers])
        this.#listeners.push(host.instantiateUse('logger', use, { parent: scope }));
      for (const use of recipe.run.callbacks)
        this.#listeners.push(host.instantiateUse('callback', use, { parent: scope }));
      await openEngine({
        mode: options.engine?.mode ?? recipe.engine.mode ?? 'graph',
        device: options.engine?.device ?? recipe.engine.device,
        ...(recipe.engine.threads === undefined ? {} : { threads: recipe.engine.threads }),
        ...(options.say === undefined ? {} : { say: options.say }),
      });
      this.#prepared = await prepareRun(this.#loaded, (event) => this.#note(event));
      await this.#emit({
        type: 'run-start',
        folder: this.#folder.folder,
        stages: recipe.stages.map(({ name }) => name),
        work: recipe.stages.map((stage) => this.#workOf(stage)),
        resumed: this.#folder.resumed,
      });
      if (this.#folder.recipeChanged) {
        await this.#emit({
          type: 'warning',
          code: 'RECIPE_CHANGED',
          message:
            'this recipe is not the one the run began with (kept as recipe.until-….yaml): finished stages keep their results, the others go on with the new settings',
        });
      }
      this.#evaluation = new Evaluation(this.#prepared, this.#options.limitUpdates !== undefined);
      const interrupted = await this.#runStages();
      const summary = await this.#saveResult(!interrupted);
      await this.#emit({ type: 'run-end', seconds: (performance.now() - this.#started) / 1000 });
      return { folder: this.#folder.folder, summary, interrupted };
    } finally {
      for (const state of this.#models.values()) disposeModel(state);
      this.#evaluation?.dispose();
      try {
        await this.#prepared?.data.close();
        for (const listener of this.#listeners) await listener.close?.();
      } finally {
        // Whatever a plugin does at its end, the folder is free for the next run.
        await this.#folder.close();
      }
    }
  }

  async #emit(event: RunEvent): Promise<void> {
    if (this.#listenerError !== undefined) throw this.#listenerError.cause;
    for (const listener of this.#listeners) await listener.on(event);
  }

  /** Tells of something from within synchronous code; a listener's error comes out at the next event. */
  #note(event: RunEvent): void {
    this.#emit(event).catch((cause: unknown) => {
      this.#listenerError ??= { cause };
    });
  }

  /** Multiply-accumulates of a stage, roughly: a backward pass costs about twice its forward. For the time left. */
  #workOf(stage: RecipeStage): number {
    const { student, teachers, loader, epochs, limitUpdates, accumulate } = planStage(
      this.#prepared,
      stage,
      this.#options.limitUpdates,
    );
    const items = Math.min(
      epochs * loader.size,
      (limitUpdates ?? Number.POSITIVE_INFINITY) * accumulate * loader.batchSize,
    );
    const forward = Object.values(teachers).reduce((sum, { description }) => sum + description.macs, 0);
    return items * (3 * student.description.macs + forward);
  }

  /** Runs the stages that are left. Gives whether the signal stopped it. */
  async #runStages(): Promise<boolean> {
    const { recipe } = this.#loaded;
    const warn = (code: string, message: string) => this.#note({ type: 'warning', code, message });
    const checkpoint = this.#folder.resumed ? await findLatestCheckpoint(this.#folder.folder, { warn }) : undefined;
    const saved = checkpoint?.manifest as SavedPoint | undefined;
    const { last, best, monitor, mode } = recipe.run.keep;
    // Without a watched split no epoch is better than another.
    const ranks = this.#prepared.data.watched !== undefined && this.#options.limitUpdates === undefined;
    this.#keeper = new CheckpointKeeper(
      this.#folder.checkpoints,
      { last, best: ranks ? best : 0, ...(ranks ? { monitor } : {}), ...(mode === undefined ? {} : { mode }) },
      { warn, state: checkpoint?.keeper },
    );
    if (this.#folder.resumed) this.#summaries = await readStages(this.#folder.folder);
    if (ranks) this.#evaluation.checkMonitors();
    // A mistake in the last stage must not cost the training of those before it.
    for (const stage of recipe.stages) dryStage(this.#prepared, stage, { limitUpdates: this.#options.limitUpdates });
    for (const [index, stage] of recipe.stages.entries()) {
      const done = this.#summaries.find((summary) => summary.stage === stage.name);
      if (done !== undefined) {
        await this.#takeModel(stage, done);
        continue;
      }
      if (this.#options.signal?.aborted) return this.#interrupt();
      const resumes = checkpoint !== undefined && saved?.stage === stage.name ? checkpoint : undefined;
      const interrupted = await this.#runStage(stage, index, resumes);
      if (interrupted) return true;
    }
    return false;
  }

  /** The model of a stage that an earlier process finished. */
  async #takeModel(stage: RecipeStage, summary: StageSummary): Promise<void> {
    const { description } = this.#prepared.models.get(stage.model)!;
    const { arrays } = await loadModel(join(this.#folder.folder, summary.modelFolder), description);
    this.#setModel(stage.model, stateOf(description, arrays));
  }

  #setModel(name: string, state: ModelState): void {
    const before = this.#models.get(name);
    if (before !== undefined) disposeModel(before);
    this.#models.set(name, state);
  }

  async #valuesOf(name: string): Promise<ModelState> {
    let state = this.#models.get(name);
    if (state === undefined) {
      state = await firstValues(this.#prepared, name);
      this.#models.set(name, state);
    }
    return state;
  }

  async #runStage(stage: RecipeStage, stageIndex: number, checkpoint: Checkpoint | undefined): Promise<boolean> {
    const started = performance.now();
    const prepared = this.#prepared;
    const { data } = prepared;
    const plan = planStage(prepared, stage, this.#options.limitUpdates);
    const initial = await this.#valuesOf(stage.initial ?? stage.model);
    const teachers: Record<string, StagePlan['teachers'][string] & { state: ModelState }> = {};
    const prints = new Map<string, string>();
    for (const [name, teacher] of Object.entries(plan.teachers)) {
      const state = await this.#valuesOf(teacher.name);
      prints.set(name, fingerprint(state));
      await this.#checkFloor(stage, name, teacher, state);
      teachers[name] = { ...teacher, state };
    }
    const saved = checkpoint?.manifest as SavedPoint | undefined;
    const secondsBefore = saved?.seconds ?? 0;
    const secondsNow = () => secondsBefore + (performance.now() - started) / 1000;
    let groups: readonly GroupRow[] = [];
    const watched = data.watched;
    const runner = new StageRunner({
      ...plan,
      initial,
      teachers,
      evaluate:
        watched === undefined
          ? undefined
          : async (state) =>
              measure(await this.#evaluation.outputs(plan.student.name, state, watched), this.#evaluation.metrics()),
      evaluationSplit: watched ?? 'dev',
      emit: async (event) => {
        if (event.type === 'stage-start' || event.type === 'phase') groups = event.groups;
        await this.#emit(event);
      },
      save: async (point, tensors, reason) => {
        const name = `${stage.name}-e${point.epoch}-u${point.update}`;
        const metrics = reason === 'epoch' || reason === 'end' ? point.history[point.history.length - 1] : undefined;
        const evaluated = metrics !== undefined && Object.keys(metrics).some((key) => key.startsWith(`${watched}/`));
        const manifest: SavedPoint = { stage: stage.name, stageIndex, point, seconds: secondsNow() };
        const summary = await this.#keeper.save(
          name,
          {
            manifest: {
              ...manifest,
              recipe: this.#loaded.recipe.name,
              seed: plan.seed,
              model: stage.model,
              architecture: plan.student.description.architecture,
              labels: data.labels,
              preprocessing: data.preprocessing(prepared.networkSize),
              tensorflow: engine().version,
            },
            tensors: { [STATE_FILE]: tensors },
          },
          { stage: stage.name, ...(evaluated ? { metrics } : {}) },
        );
        await this.#emit({ type: 'checkpoint', stage: stage.name, path: summary.folder, reason });
      },
      signal: this.#options.signal,
      resume:
        checkpoint === undefined || saved === undefined
          ? undefined
          : { point: saved.point, tensors: checkpoint.tensors[STATE_FILE]! },
    });
    const result = await runner.run();
    for (const [name, teacher] of Object.entries(teachers)) {
      if (fingerprint(teacher.state) !== prints.get(name)) {
        throw new AlambicError(
          'TEACHER_CHANGED',
          `teacher "${name}" of stage "${stage.name}" is not what it was before the stage`,
          {
            hint: 'A strategy changed its values; teachers are fixed.',
          },
        );
      }
    }
    if (result.interrupted) {
      disposeModel(result.state);
      return this.#interrupt();
    }
    this.#setModel(stage.model, result.state);
    const { metrics, ...summary } = await summariseStage({
      prepared,
      evaluation: this.#evaluation,
      folder: this.#folder.folder,
      stage,
      plan,
      result,
      groups: groups.length > 0 ? groups : runner.layout.rows,
      limited: this.#options.limitUpdates !== undefined,
    });
    const split = data.heldOut;
    if (split !== undefined)
      await this.#emit({ type: 'evaluation', stage: stage.name, epoch: result.history.length, split, metrics });
    this.#summaries.push({ ...summary, metrics, seconds: secondsNow() });
    await this.#saveResult(false);
    return false;
  }

  /** Tells that the signal stopped the run, and where it goes on from. */
  async #interrupt(): Promise<true> {
    const checkpoint = await findLatestCheckpoint(this.#folder.folder);
    await this.#emit({
      type: 'interrupted',
      signal: String(this.#options.signal?.reason ?? 'signal'),
      checkpoint: checkpoint?.folder ?? this.#folder.checkpoints,
    });
    return true;
  }

  /** Evaluates a teacher before anything is learned from it, and refuses one that is worse than the recipe's floor. */
  async #checkFloor(
    stage: RecipeStage,
    name: string,
    teacher: StagePlan['teachers'][string],
    state: ModelState,
  ): Promise<void> {
    const split = this.#prepared.data.watched ?? this.#prepared.data.heldOut;
    if (teacher.floor === undefined || split === undefined || this.#options.limitUpdates !== undefined) return;
    const values = measure(await this.#evaluation.outputs(teacher.name, state, split), this.#evaluation.metrics());
    const top1 = values['top1'] ?? 0;
    await this.#emit({
      type: 'evaluation',
      stage: stage.name,
      epoch: 0,
      split: `${split}/teacher/${name}`,
      metrics: values,
    });
    if (top1 < teacher.floor) {
      throw new AlambicError(
        'TEACHER_FLOOR',
        `teacher "${name}" of stage "${stage.name}" has a top-1 accuracy of ${top1.toFixed(4)} on ${split}, its floor is ${teacher.floor}`,
        { hint: 'Train it longer, load its weights, or lower the floor.' },
      );
    }
  }

  async #saveResult(finished: boolean): Promise<RunSummary> {
    const { recipe } = this.#loaded;
    const cpu = cpus()[0]?.model.trim();
    const summary: RunSummary = {
      format: 'alambic-result',
      version: 1,
      name: recipe.name,
      description: recipe.description,
      labels: this.#prepared.data.labels,
      stages: this.#summaries,
      compare: recipe.report.compare ?? recipe.stages.map(({ name }) => name),
      baseline: recipe.report.baseline,
      finished,
      seconds: this.#summaries.reduce((sum, { seconds }) => sum + seconds, 0),
      environment: {
        alambic: VERSION,
        node: process.version,
        tensorflow: engine().version,
        device: engine().device.name,
        mode: engine().mode,
        platform: `${platform()} ${release()}`,
        ...(cpu === undefined ? {} : { cpu }),
        cores: availableParallelism(),
        memoryGiB: Math.round(totalmem() / 2 ** 30),
        seed: recipe.seed,
        ...(this.#options.command === undefined ? {} : { command: this.#options.command }),
      },
    };
    await writeRunSummary(this.#folder.folder, summary);
    return summary;
  }
}
