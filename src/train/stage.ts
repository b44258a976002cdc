import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import type { Loader } from '../data/loader.ts';
import type { HostBatch } from '../data/source.ts';
import { capture, placeholder, trace } from '../engine/capture.ts';
import { engine } from '../engine/engine.ts';
import { AlambicError } from '../errors.ts';
import type { TensorRecord } from '../formats/safetensors.ts';
import { describeModule, initialise } from '../nn/describe.ts';
import type {
  Backbone,
  BufferSpec,
  Mode,
  ModelDescription,
  ModelState,
  ParameterSpec,
  Role,
  Tensors,
} from '../nn/module.ts';
import { initialEma } from '../optim/ema.ts';
import type {
  BuildView,
  GroupRow,
  Optimizer,
  ParameterTree,
  Position,
  RunEvent,
  Schedule,
  StrategyModule,
  Term,
} from '../plugin-host/contract.ts';
import { mapTree, type Tree } from '../tree.ts';
import { monitorMode } from './checkpoint-keeper.ts';
import { uploadBatch } from './evaluate.ts';
import { groupRows, type NamedStrategy, type Plan, parameterTree, planGroups } from './groups.ts';
import type { TrainState } from './state.ts';
import { readTree, restoreState } from './state-record.ts';
import {
  buildContext,
  type ClipRule,
  collectTerms,
  type DeviceBatch,
  type EmaRule,
  makeStep,
  type Preparation,
  packKnobs,
  type StepDefinition,
  unpackMetrics,
} from './step.ts';

/** A network of a stage. */
export interface StageModel {
  readonly name: string;
  readonly backbone: Backbone;
  readonly description: ModelDescription;
}

/** Everything a stage needs, already resolved: no recipe, no host, no files. */
export interface StageInput {
  readonly name: string;
  readonly seed: number;
  readonly student: StageModel;
  /** Values the student starts from. The stage does not dispose them. */
  readonly initial: ModelState;
  readonly teachers: Readonly<Record<string, StageModel & { readonly state: ModelState; readonly mode: Mode }>>;
  readonly strategies: readonly NamedStrategy[];
  readonly labels: readonly string[];
  readonly loader: Loader;
  readonly preparation: Preparation;
  /** Runs after each epoch (and at the end): metrics of the held-out split, without prefix. */
  readonly evaluate: ((state: ModelState) => Promise<Record<string, number>>) | undefined;
  /** Prefix of the evaluation's metrics, the split's name. */
  readonly evaluationSplit: string;
  readonly optimizer: Optimizer;
  readonly schedule: Schedule;
  readonly epochs: number;
  readonly accumulate: number;
  readonly clip: ClipRule | undefined;
  readonly ema: (EmaRule & { readonly evaluate: boolean }) | undefined;
  readonly evaluateEvery: number;
  readonly logEvery: number;
  /** Updates between checkpoints within an epoch; 0 = only at its end. */
  readonly saveEvery: number;
  readonly earlyStop: { readonly monitor: string; readonly patience: number; readonly minDelta: number } | undefined;
  /** Ends the stage after this many updates, for dry runs. */
  readonly limitUpdates: number | undefined;
  readonly emit: (event: RunEvent) => Promise<void> | void;
  readonly save: (
    point: StagePoint,
    tensors: TensorRecord,
    reason: 'epoch' | 'interval' | 'signal' | 'end',
  ) => Promise<void>;
  readonly signal: AbortSignal | undefined;
  readonly resume: { readonly point: StagePoint; readonly tensors: TensorRecord } | undefined;
}

/** Where a stage stands: plain data, saved with its state. */
export interface StagePoint {
  readonly phase: number;
  /** Epoch in which the phase began: plans are made for that moment, also after a resume. */
  readonly phaseEpoch: number;
  /** Epoch that goes on. */
  readonly epoch: number;
  /** Position in that epoch's order. */
  readonly offset: number;
  readonly update: number;
  readonly history: readonly Readonly<Record<string, number>>[];
  /** Best value of the monitored metric so far, and for how many evaluations it was not beaten. */
  readonly best: number | null;
  readonly stale: number;
  /** Sums of the epoch so far, so that its metrics come out the same after a resume. */
  readonly sums: Readonly<Record<string, number>>;
  readonly finished: boolean;
}

export interface StageResult {
  /** Raw values, or the average where the stage evaluates its EMA. Belongs to the caller. */
  readonly state: ModelState;
  readonly history: readonly Readonly<Record<string, number>>[];
  readonly updates: number;
  readonly interrupted: boolean;
}

/** Updates in a row that may be left out because something was not finite, before the stage gives up. */
const MOST_SKIPPED = 10;

type StepArguments = [TrainState, Record<string, ModelState>, DeviceBatch, Tensor];

/** A recorded step and what is known of its recording. */
interface StageStep {
  call(...args: StepArguments): Promise<{ state: TrainState; metrics: Tensor }>;
  readonly recording: { readonly ops: number; readonly milliseconds: number };
  dispose(): void;
}

/** The step of a batch that ends an update, and that of one that does not. */
interface StageSteps {
  readonly last: StageStep;
  readonly more: StageStep | undefined;
}

function captureStep(definition: StepDefinition, last: boolean): StageStep {
  type Trees = Tree<Tensor>[];
  const captured = capture(
    `step ${definition.stage}`,
    makeStep(definition, last) as unknown as (...args: Trees) => Tree<Tensor>,
  );
  const step = {
    recording: { ops: 0, milliseconds: 0 },
    call: async (...args: StepArguments) => {
      const trees = args as unknown as Trees;
      if (engine().mode !== 'eager') step.recording = captured.record(...trees);
      return (await captured(...trees)) as unknown as { state: TrainState; metrics: Tensor };
    },
    dispose: () => captured.dispose(),
  };
  return step;
}

const dispose = (tree: object) => tf.dispose(tree as tf.TensorContainer);

/** What is known of a stage before it trains: shown by `check`, and the basis of the step. */
export interface StageLayout {
  readonly tree: ParameterTree;
  readonly plan: Plan;
  readonly rows: readonly GroupRow[];
  readonly terms: readonly { readonly name: string; readonly weight: number; readonly shape: readonly number[] }[];
  readonly modules: Readonly<Record<string, StrategyModule>>;
  readonly ownParameters: readonly ParameterSpec[];
  readonly ownBuffers: readonly BufferSpec[];
  /** Multiply-accumulates of one item's forward passes, teachers included. */
  readonly macs: number;
}

/** Builds one stage: groups, terms, recorded steps; then trains it. */
export class StageRunner {
  readonly input: StageInput;
  readonly #build: BuildView;
  readonly #modules: Record<string, StrategyModule> = {};
  readonly #ownParameters: ParameterSpec[] = [];
  readonly #ownBuffers: BufferSpec[] = [];
  readonly #tree: ParameterTree;
  readonly #roles = new Map<string, Role>();
  #terms: { name: string; weight: number; shape: number[] }[] = [];
  #plan: Plan;
  #position: Position;

  constructor(input: StageInput) {
    this.input = input;
    this.#build = {
      student: input.student.description,
      teachers: Object.fromEntries(
        Object.entries(input.teachers).map(([name, { description }]) => [name, description]),
      ),
      labels: input.labels,
      batchSize: input.loader.batchSize,
    };
    for (const { strategy } of input.strategies) strategy.check?.(this.#build);
    for (const { name, strategy } of input.strategies) {
      for (const [key, own] of Object.entries(strategy.modules?.(this.#build) ?? {})) {
        const full = `strategies.${name}.${key}`;
        const description = describeModule(own.module, own.inputShape);
        this.#modules[full] = own;
        this.#ownParameters.push(...description.parameters.map((spec) => ({ ...spec, name: `${full}.${spec.name}` })));
        this.#ownBuffers.push(...description.buffers.map((spec) => ({ ...spec, name: `${full}.${spec.name}` })));
      }
    }
    const trained = this.#ownParameters.filter((spec) => this.#moduleOf(spec.name)?.trainable !== false);
    this.#tree = parameterTree(input.student.description, trained);
    for (const spec of [...input.student.description.parameters, ...this.#ownParameters])
      this.#roles.set(spec.name, spec.role);
    this.#position = {
      phase: input.resume?.point.phase ?? 0,
      epoch: input.resume?.point.phaseEpoch ?? 0,
      epochs: input.epochs,
    };
    this.#plan = planGroups(this.#tree, input.strategies, this.#position);
    this.#terms = this.#describeTerms();
  }

  /** Groups, terms and shapes, found by a dry run. */
  get layout(): StageLayout {
    return {
      tree: this.#tree,
      plan: this.#plan,
      rows: this.#rows(),
      terms: this.#terms,
      modules: this.#modules,
      ownParameters: this.#ownParameters,
      ownBuffers: this.#ownBuffers,
      macs:
        this.input.student.description.macs +
        Object.values(this.input.teachers).reduce((sum, teacher) => sum + teacher.description.macs, 0),
    };
  }

  get updatesPerEpoch(): number {
    return Math.ceil(this.input.loader.batches / this.input.accumulate);
  }

  /** Trains the stage from where it stands to its end, or until the signal. */
  async run(): Promise<StageResult> {
    const { input } = this;
    const { emit, loader } = input;
    const started = performance.now();
    const resumed = input.resume;
    let state = resumed === undefined ? this.#initialState() : restoreState(resumed.tensors);
    let point: StagePoint = resumed?.point ?? {
      phase: 0,
      phaseEpoch: 0,
      epoch: 0,
      offset: 0,
      update: 0,
      history: [],
      best: null,
      stale: 0,
      sums: {},
      finished: false,
    };
    const teachers = Object.fromEntries(
      Object.entries(input.teachers).map(([name, teacher]) => [
        name,
        { params: teacher.state.params, buffers: teacher.state.buffers },
      ]),
    );
    const perEpoch = this.updatesPerEpoch;
    const total = perEpoch * input.epochs;
    await emit({
      type: 'stage-start',
      stage: input.name,
      epochs: input.epochs,
      updatesPerEpoch: perEpoch,
      groups: this.#rows(),
    });

    let steps = this.#captureSteps();
    let interrupted = false;
    let skippedInRow = 0;
    let recorded = false;
    let lastLog = performance.now();
    let itemsSinceLog = 0;
    const history = [...point.history];

    training: while (point.epoch < input.epochs && !point.finished) {
      const epochStarted = performance.now();
      const sums: Record<string, number> = { ...point.sums };
      let window: HostBatch[] = [];
      for await (const batch of loader.epoch(point.epoch, point.offset)) {
        window.push(batch);
        const endOfEpoch = batch.nextOffset >= loader.size;
        if (window.length < input.accumulate && !endOfEpoch) continue;

        const outcome = await this.#update(steps, state, teachers, window, point.update, total);
        state = outcome.state;
        const items = window.reduce((sum, { labels }) => sum + labels.length, 0);
        window = [];
        itemsSinceLog += items;
        skippedInRow = outcome.finite ? 0 : skippedInRow + 1;
        if (skippedInRow >= MOST_SKIPPED) throw this.#notFinite(outcome.losses, point.epoch);
        if (outcome.finite) {
          for (const [name, value] of Object.entries(outcome.losses)) sums[name] = (sums[name] ?? 0) + value * items;
          sums['items'] = (sums['items'] ?? 0) + items;
        } else {
          sums['skipped'] = (sums['skipped'] ?? 0) + 1;
        }
        point = { ...point, offset: batch.nextOffset, update: point.update + 1, sums };
        if (!recorded) {
          recorded = true;
          const { ops, milliseconds } = outcome.recording;
          await emit({ type: 'recorded', stage: input.name, ops, milliseconds });
        }
        const limited = input.limitUpdates !== undefined && point.update >= input.limitUpdates;
        if (point.update % input.logEvery === 0 || endOfEpoch || limited) {
          const now = performance.now();
          await emit({
            type: 'step',
            stage: input.name,
            epoch: point.epoch,
            update: point.update,
            updates: total,
            losses: outcome.losses,
            rate: outcome.rate,
            itemsPerSecond: (itemsSinceLog / Math.max(1, now - lastLog)) * 1000,
            waiting: loader.wait.take().share,
            memoryBytes: engine().memoryBytes(),
            skipped: sums['skipped'] ?? 0,
          });
          lastLog = now;
          itemsSinceLog = 0;
        }
        if (limited) {
          point = { ...point, finished: true };
          break;
        }
        if (input.signal?.aborted) {
          interrupted = true;
          // The end of an epoch has work of its own (evaluation, phases): it is done by whoever resumes.
          await input.save(point, readTree(state as never), 'signal');
          break training;
        }
        if (input.saveEvery > 0 && point.update % input.saveEvery === 0 && !endOfEpoch) {
          await input.save(point, readTree(state as never), 'interval');
        }
      }

      const metrics: Record<string, number> = {};
      const items = sums['items'] ?? 0;
      for (const [name, value] of Object.entries(sums)) {
        if (name !== 'items' && name !== 'skipped') metrics[`train/${name}`] = value / Math.max(1, items);
      }
      metrics['train/skipped'] = sums['skipped'] ?? 0;
      const finalEpoch = point.epoch + 1 >= input.epochs || point.finished;
      const evaluates = input.evaluate !== undefined && ((point.epoch + 1) % input.evaluateEvery === 0 || finalEpoch);
      if (evaluates) {
        const values = await input.evaluate!(this.#evaluated(state));
        for (const [name, value] of Object.entries(values)) metrics[`${input.evaluationSplit}/${name}`] = value;
        await emit({
          type: 'evaluation',
          stage: input.name,
          epoch: point.epoch,
          split: input.evaluationSplit,
          metrics: values,
        });
      }
      history.push(metrics);
      await emit({
        type: 'epoch-end',
        stage: input.name,
        epoch: point.epoch,
        metrics,
        seconds: (performance.now() - epochStarted) / 1000,
      });
      point = { ...point, epoch: point.epoch + 1, offset: 0, sums: {}, history: [...history] };
      point = this.#judge(point, metrics, evaluates);

      const next = this.#advance(point);
      if (next === 'stop') point = { ...point, finished: true };
      if (next === 'next-phase') {
        point = { ...point, phase: point.phase + 1, phaseEpoch: point.epoch };
        this.#position = { phase: point.phase, epoch: point.epoch, epochs: input.epochs };
        this.#plan = planGroups(this.#tree, input.strategies, this.#position);
        this.#terms = this.#describeTerms();
        state = this.#withSlots(state);
        for (const step of [steps.last, steps.more]) step?.dispose();
        steps = this.#captureSteps();
        recorded = false;
        await emit({ type: 'phase', stage: input.name, phase: point.phase, groups: this.#rows() });
      }
      const finished = point.finished || point.epoch >= input.epochs;
      await input.save({ ...point, finished }, readTree(state as never), finished ? 'end' : 'epoch');
      if (input.signal?.aborted && !finished) {
        interrupted = true;
        break;
      }
    }

    for (const step of [steps.last, steps.more]) step?.dispose();
    const evaluated = this.#evaluated(state);
    const result: ModelState = {
      params: Object.fromEntries(Object.entries(evaluated.params).map(([name, value]) => [name, tf.clone(value)])),
      buffers: Object.fromEntries(Object.entries(evaluated.buffers).map(([name, value]) => [name, tf.clone(value)])),
    };
    dispose(state);
    if (!interrupted) {
      await emit({
        type: 'stage-end',
        stage: input.name,
        metrics: history[history.length - 1] ?? {},
        seconds: (performance.now() - started) / 1000,
      });
    }
    return { state: result, history, updates: point.update, interrupted };
  }

  // ------------------------------------------------------------------------------------------------------------- the update

  /** One optimizer update: a window of one or more batches. */
  async #update(
    steps: StageSteps,
    before: TrainState,
    teachers: Record<string, ModelState>,
    window: readonly HostBatch[],
    update: number,
    total: number,
  ) {
    const { input } = this;
    const items = window.reduce((sum, { labels }) => sum + labels.length, 0);
    const labelled = window.reduce(
      (sum, { labels }) => sum + labels.reduce((n, label) => n + (label >= 0 ? 1 : 0), 0),
      0,
    );
    const perEpoch = this.updatesPerEpoch;
    const rate = input.optimizer.baseRate * input.schedule.factor(update, total, perEpoch);
    const done = total <= 1 ? 0 : update / (total - 1);
    const knobs = tf.tensor1d(
      packKnobs({
        rates: this.#plan.groups.map((group) => rate * group.rate),
        weights: this.#weightsAt(done),
        items,
        labelled,
        momentum: input.schedule.momentum?.(update, total, perEpoch) ?? 0,
      }),
    );
    let state = before;
    let lossTotal = 0;
    let finite = true;
    const terms = new Array<number>(this.#terms.length).fill(0);
    let recording = { ops: 0, milliseconds: 0 };
    for (const [i, hostBatch] of window.entries()) {
      const last = i === window.length - 1;
      const step = last ? steps.last : steps.more!;
      const batch = uploadBatch(hostBatch);
      const result = await step.call(state, teachers, batch, knobs);
      if (last) recording = step.recording;
      const metrics = unpackMetrics(result.metrics.dataSync() as Float32Array);
      dispose([batch, result.metrics]);
      lossTotal += metrics.total;
      finite &&= metrics.finite && Number.isFinite(metrics.total);
      metrics.terms.forEach((value, t) => {
        terms[t] = terms[t]! + value;
      });
      // The state before the window stays alive until it is known whether the window counts.
      if (state !== before) dispose(state);
      state = result.state;
    }
    dispose(knobs);
    const losses: Record<string, number> = { total: lossTotal };
    this.#terms.forEach(({ name }, t) => {
      losses[name] = terms[t]!;
    });
    if (finite) {
      dispose(before);
      return { state, losses, finite, rate, recording };
    }
    // Nothing of a step that is not finite is kept, except that its batches count as seen and the skip is counted.
    const kept: TrainState = {
      ...(mapTree<Tensor, Tensor>(before as never, (leaf) => tf.clone(leaf)) as unknown as TrainState),
      counters: {
        updates: tf.clone(before.counters.updates),
        batches: tf.clone(state.counters.batches),
        skipped: tf.add(before.counters.skipped, tf.scalar(1, 'int32')),
      },
    };
    dispose(before);
    dispose(state);
    return { state: kept, losses, finite, rate, recording };
  }

  #weightsAt(done: number): number[] {
    const scheduled = new Map<string, number>();
    for (const { name, strategy } of this.input.strategies) {
      for (const [term, weight] of Object.entries(strategy.weights?.(done) ?? {}))
        scheduled.set(`${name}/${term}`, weight);
    }
    return this.#terms.map(({ name, weight }) => scheduled.get(name) ?? weight);
  }

  #notFinite(losses: Readonly<Record<string, number>>, epoch: number): AlambicError {
    const bad = Object.entries(losses).filter(([, value]) => !Number.isFinite(value));
    const what = bad.length === 0 ? 'the gradients were' : `${bad.map(([name]) => name).join(', ')} was`;
    return new AlambicError(
      'NOT_FINITE',
      `stage "${this.input.name}", epoch ${epoch}: ${what} not finite in ${MOST_SKIPPED} updates in a row`,
      {
        hint: 'Lower the rate, add `clip: { norm: 1 }` or a warm-up; the last checkpoint is from before. `--engine eager` helps to find the op.',
      },
    );
  }

  // ------------------------------------------------------------------------------------------------------- phases and ending

  #advance(point: StagePoint): 'stay' | 'next-phase' | 'stop' {
    const position: Position = { phase: point.phase, epoch: point.epoch, epochs: this.input.epochs };
    const wishes = this.input.strategies.map(
      ({ strategy }) => strategy.advance?.({ position, history: point.history }) ?? 'stay',
    );
    if (wishes.includes('stop')) return 'stop';
    if (point.epoch >= this.input.epochs) return 'stay';
    return wishes.includes('next-phase') ? 'next-phase' : 'stay';
  }

  /** Early stopping. */
  #judge(point: StagePoint, metrics: Readonly<Record<string, number>>, evaluated: boolean): StagePoint {
    const rule = this.input.earlyStop;
    if (rule === undefined || !evaluated) return point;
    const value = metrics[rule.monitor];
    if (value === undefined) {
      throw new AlambicError(
        'UNKNOWN_METRIC',
        `early stopping watches "${rule.monitor}", which this stage does not measure`,
        {
          hint: `It measures ${Object.keys(metrics).join(', ')}.`,
        },
      );
    }
    const sign = monitorMode(rule.monitor) === 'max' ? 1 : -1;
    const better = point.best === null || sign * (value - point.best) > rule.minDelta;
    if (better) return { ...point, best: value, stale: 0 };
    const stale = point.stale + 1;
    return { ...point, stale, finished: stale >= rule.patience };
  }

  // ---------------------------------------------------------------------------------------------------------------- building

  #moduleOf(parameter: string): StrategyModule | undefined {
    const name = Object.keys(this.#modules).find((full) => parameter.startsWith(`${full}.`));
    return name === undefined ? undefined : this.#modules[name];
  }

  #definition(): StepDefinition {
    const { input } = this;
    return {
      stage: input.name,
      seed: input.seed,
      student: input.student.backbone,
      teachers: Object.fromEntries(
        Object.entries(input.teachers).map(([name, teacher]) => [
          name,
          { module: teacher.backbone, mode: teacher.mode },
        ]),
      ),
      modules: Object.fromEntries(Object.entries(this.#modules).map(([name, { module }]) => [name, module])),
      strategies: input.strategies,
      optimizer: input.optimizer,
      roles: this.#roles,
      plan: this.#plan,
      preparation: input.preparation,
      clip: input.clip,
      ema: input.ema,
      accumulates: input.accumulate > 1,
      cyclesMomentum: input.schedule.momentum !== undefined,
      termNames: this.#terms.map(({ name }) => name),
      onUnreached: (names) => {
        void input.emit({
          type: 'warning',
          code: 'UNREACHED_PARAMETERS',
          message: `no loss of stage "${input.name}" depends on ${names.length} trainable parameter(s): ${names.slice(0, 5).join(', ')}${names.length > 5 ? ', …' : ''}`,
        });
      },
    };
  }

  #captureSteps(): StageSteps {
    const definition = this.#definition();
    return {
      last: captureStep(definition, true),
      more: this.input.accumulate > 1 ? captureStep(definition, false) : undefined,
    };
  }

  /** Names, weights and shapes of the terms, by a dry run over placeholders: nothing is computed. */
  #describeTerms(): { name: string; weight: number; shape: number[] }[] {
    const { input } = this;
    const [h, w, c] = input.loader.store.inputSize;
    const size = Math.min(input.loader.batchSize, input.loader.size);
    const definition = { ...this.#definition(), termNames: [] };
    const symbols = (specs: readonly (ParameterSpec | BufferSpec)[]): Tensors =>
      Object.fromEntries(specs.map((spec) => [spec.name, placeholder(spec.shape)]));
    const { result } = trace(
      `terms of ${input.name}`,
      [
        { shape: [size, h, w, c], dtype: 'uint8' },
        { shape: [size], dtype: 'int32' },
        { shape: [], dtype: 'int32' },
      ],
      (images, labels, batches) => {
        const { description } = input.student;
        const counters = { updates: batches!, batches: batches!, skipped: batches! };
        const context = buildContext(
          definition,
          {
            params: { ...symbols(description.parameters), ...symbols(this.#ownParameters) },
            buffers: { ...symbols(description.buffers), ...symbols(this.#ownBuffers) },
            counters,
          },
          Object.fromEntries(
            Object.entries(input.teachers).map(([name, teacher]) => [
              name,
              { params: symbols(teacher.description.parameters), buffers: symbols(teacher.description.buffers) },
            ]),
          ),
          { images: images!, labels: labels! },
        );
        context.runTeachers();
        return [...collectTerms(input.strategies, context)].map(([name, term]: [string, Term]) => ({
          name,
          weight: term.weight ?? 1,
          shape: [...term.loss.shape],
        }));
      },
    );
    return result;
  }

  #rows(): GroupRow[] {
    const { optimizer } = this.input;
    return groupRows(this.#tree, this.#plan, optimizer.baseRate, (parameter, decay) =>
      optimizer.decayOf(parameter.role, decay),
    );
  }

  #initialState(): TrainState {
    const { input } = this;
    const own = initialise(
      { ...input.student.description, parameters: this.#ownParameters, buffers: this.#ownBuffers } as ModelDescription,
      input.seed,
    );
    const copy = (tensors: Readonly<Tensors>): Record<string, Tensor> =>
      Object.fromEntries(Object.entries(tensors).map(([name, value]) => [name, tf.clone(value)]));
    const params = { ...copy(input.initial.params), ...own.params };
    const buffers = { ...copy(input.initial.buffers), ...own.buffers };
    for (const [full, { initial }] of Object.entries(this.#modules)) {
      if (initial !== 'student') continue;
      for (const [target, source] of [
        [params, input.initial.params],
        [buffers, input.initial.buffers],
      ] as const) {
        for (const name of Object.keys(target)) {
          const value = name.startsWith(`${full}.`) ? source[name.slice(full.length + 1)] : undefined;
          if (value === undefined) continue;
          target[name]!.dispose();
          target[name] = tf.clone(value);
        }
      }
    }
    const int = () => tf.scalar(0, 'int32');
    const empty: TrainState = {
      params,
      buffers,
      slots: {},
      ema: input.ema === undefined ? { params: {}, buffers: {}, counters: {} } : initialEma(input.initial),
      accumulator: {},
      scaler: {},
      counters: { updates: int(), batches: int(), skipped: int() },
    };
    return this.#withSlots(empty);
  }

  /** The state with slots (and accumulators) for exactly the parameters that train now; those of others go. */
  #withSlots(state: TrainState): TrainState {
    const slots: Record<string, Tensors> = {};
    const accumulator: Record<string, Tensor> = {};
    for (const [name, { trainable }] of this.#plan.assignments) {
      if (!trainable) continue;
      slots[name] = state.slots[name] ?? this.input.optimizer.init(name, state.params[name]!);
      if (this.input.accumulate > 1) accumulator[name] = state.accumulator[name] ?? tf.zerosLike(state.params[name]!);
    }
    for (const [name, tensors] of Object.entries(state.slots)) if (slots[name] === undefined) dispose(tensors);
    for (const [name, tensor] of Object.entries(state.accumulator))
      if (accumulator[name] === undefined) tensor.dispose();
    return { ...state, slots, accumulator };
  }

  /** The student's values that are evaluated and handed on. */
  #evaluated(state: TrainState): ModelState {
    const averaged = this.input.ema?.evaluate === true;
    const only = (tensors: Readonly<Tensors>): Tensors =>
      Object.fromEntries(Object.entries(tensors).filter(([name]) => !name.startsWith('strategies.')));
    return averaged
      ? { params: only(state.ema.params), buffers: only(state.ema.buffers) }
      : { params: only(state.params), buffers: only(state.buffers) };
  }
}
