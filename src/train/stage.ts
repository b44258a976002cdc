import * as tf from '@tensorflow/tfjs-core';
import type { HostBatch } from '../data/source.ts';
import { engine } from '../engine/engine.ts';
import { AlambicError, unknownName } from '../errors.ts';
import type { ModelState } from '../nn/module.ts';
import type { Position } from '../plugin-host/contract.ts';
import { StageBlueprint, type StageLayout } from './stage-blueprint.ts';
import { STAGE_BEGIN, type StageInput, type StagePoint, type StageResult } from './stage-input.ts';
import { copyModel, initialState, resumedState, studentValues, withSlots } from './stage-state.ts';
import { captureSteps, runUpdate, type StageSteps } from './stage-update.ts';
import type { TrainState } from './state.ts';
import { readTree } from './state-record.ts';

/** Updates in a row that may be left out because something was not finite, before the stage gives up. */
const MOST_SKIPPED = 10;

/** Builds one stage: groups, terms, recorded steps; then trains it. */
export class StageRunner {
  readonly input: StageInput;
  readonly #blueprint: StageBlueprint;
  readonly #warned = new Set<string>();

  // What changes while it trains.
  #state: TrainState | undefined;
  #point: StagePoint;
  #steps: StageSteps | undefined;
  #recorded = false;
  #lastLog = 0;
  #itemsSinceLog = 0;

  constructor(input: StageInput) {
    this.input = input;
    this.#point = input.resume?.point ?? STAGE_BEGIN;
    this.#blueprint = new StageBlueprint(input, this.#position());
  }

  /** Groups, terms and shapes, found by a dry run. */
  get layout(): StageLayout {
    return this.#blueprint.layout;
  }

  get updatesPerEpoch(): number {
    return Math.ceil(this.input.loader.batches / this.input.accumulate);
  }

  /** Updates of the whole stage: what schedules see as the total. */
  get updates(): number {
    const { epochs, limitUpdates } = this.input;
    return Math.min(this.updatesPerEpoch * epochs, limitUpdates ?? Number.POSITIVE_INFINITY);
  }

  /** Trains the stage from where it stands to its end, or until the signal. */
  async run(): Promise<StageResult> {
    const { input } = this;
    const started = performance.now();
    this.#checkMonitor();
    await input.emit({
      type: 'stage-start',
      stage: input.name,
      epochs: input.epochs,
      updatesPerEpoch: this.updatesPerEpoch,
      groups: this.#blueprint.rows(),
    });
    try {
      this.#state =
        input.resume === undefined
          ? initialState(this.#blueprint)
          : resumedState(this.#blueprint, input.resume.tensors);
      this.#steps = this.#captureSteps();
      this.#lastLog = performance.now();
      let interrupted = false;
      while (!interrupted && this.#point.epoch < input.epochs && !this.#point.finished)
        interrupted = await this.#runEpoch();
      const { history, update } = this.#point;
      if (!interrupted) {
        this.#checkLearned();
        await input.emit({
          type: 'stage-end',
          stage: input.name,
          metrics: history[history.length - 1] ?? {},
          seconds: (performance.now() - started) / 1000,
        });
      }
      return { state: copyModel(this.#evaluated()), history, updates: update, interrupted };
    } finally {
      this.#steps?.dispose();
      if (this.#state !== undefined) tf.dispose(this.#state as unknown as tf.TensorContainer);
      this.#state = undefined;
    }
  }

  // -------------------------------------------------------------------------------------------------------------- an epoch

  /** Trains what is left of the present epoch, evaluates, moves on. Gives whether the signal stopped it. */
  async #runEpoch(): Promise<boolean> {
    const { input } = this;
    const started = performance.now();
    const { epoch } = this.#point;
    if (await this.#trainEpoch()) return true;

    const metrics = this.#trainMetrics();
    const limited = this.#isLimited();
    const finalEpoch = epoch + 1 >= input.epochs || limited;
    const evaluates = input.evaluate !== undefined && ((epoch + 1) % input.evaluateEvery === 0 || finalEpoch);
    if (evaluates) {
      const values = await input.evaluate!(this.#evaluated());
      for (const [name, value] of Object.entries(values)) metrics[`${input.evaluationSplit}/${name}`] = value;
      await input.emit({
        type: 'evaluation',
        stage: input.name,
        epoch,
        split: input.evaluationSplit,
        metrics: values,
      });
    }
    await input.emit({
      type: 'epoch-end',
      stage: input.name,
      epoch,
      metrics,
      seconds: (performance.now() - started) / 1000,
    });
    const next = { ...this.#point, epoch: epoch + 1, offset: 0, sums: {}, history: [...this.#point.history, metrics] };
    this.#point = this.#judge({ ...next, finished: limited || next.epoch >= input.epochs }, metrics, evaluates);
    await this.#advance();
    const { finished } = this.#point;
    await this.#save(finished ? 'end' : 'epoch');
    return !finished && input.signal?.aborted === true;
  }

  /** The updates of the present epoch that are left. Gives whether the signal stopped them. */
  async #trainEpoch(): Promise<boolean> {
    const { input } = this;
    const { loader } = input;
    if (this.#isLimited()) return false;
    let window: HostBatch[] = [];
    for await (const batch of loader.epoch(this.#point.epoch, this.#point.offset)) {
      window.push(batch);
      const endOfEpoch = batch.nextOffset >= loader.size;
      if (window.length < input.accumulate && !endOfEpoch) continue;
      await this.#update(window, endOfEpoch);
      window = [];
      if (this.#isLimited()) return false;
      if (input.signal?.aborted) {
        // The end of an epoch has work of its own (evaluation, phases): it is done by whoever resumes.
        await this.#save('signal');
        return true;
      }
      if (input.saveEvery > 0 && this.#point.update % input.saveEvery === 0 && !endOfEpoch)
        await this.#save('interval');
    }
    return false;
  }

  /** One update, its sums and its events. */
  async #update(window: readonly HostBatch[], endOfEpoch: boolean): Promise<void> {
    const { input } = this;
    const before = this.#point;
    const perEpoch = this.updatesPerEpoch;
    const total = this.updates;
    // An update that was left out does not move the schedule.
    const applied = before.update - before.skipped;
    const rate = input.optimizer.baseRate * input.schedule.factor(applied, total, perEpoch);
    const { finite, losses, state } = await runUpdate(this.#steps!, this.#state!, this.#teachers(), {
      batches: window,
      rates: this.#blueprint.plan.groups.map((group) => rate * group.rate),
      weights: this.#blueprint.weightsAt(total <= 1 ? 0 : Math.min(1, before.update / (total - 1))),
      momentum: input.schedule.momentum?.(applied, total, perEpoch) ?? 0,
      termNames: this.#blueprint.terms.map(({ name }) => name),
    });
    this.#state = state;
    const items = window.reduce((sum, { labels }) => sum + labels.length, 0);
    const sums: Record<string, number> = { ...before.sums };
    const add = (name: string, value: number) => {
      sums[name] = (sums[name] ?? 0) + value;
    };
    if (finite) {
      for (const [name, value] of Object.entries(losses)) add(name, value * items);
      add('items', items);
    } else {
      add('skipped', 1);
    }
    const skippedInRow = finite ? 0 : before.skippedInRow + 1;
    this.#point = {
      ...before,
      offset: window[window.length - 1]!.nextOffset,
      update: before.update + 1,
      sums,
      skipped: before.skipped + (finite ? 0 : 1),
      skippedInRow,
    };
    if (skippedInRow >= MOST_SKIPPED) throw this.#notFinite(losses);
    if (!this.#recorded) {
      this.#recorded = true;
      await input.emit({ type: 'recorded', stage: input.name, ...this.#steps!.last.recording! });
    }
    this.#itemsSinceLog += items;
    const { update, epoch } = this.#point;
    if (update % input.logEvery !== 0 && !endOfEpoch && !this.#isLimited()) return;
    const now = performance.now();
    await input.emit({
      type: 'step',
      stage: input.name,
      epoch,
      update,
      updates: total,
      losses,
      rate,
      itemsPerSecond: (this.#itemsSinceLog / Math.max(1, now - this.#lastLog)) * 1000,
      waiting: input.loader.wait.take().share,
      memoryBytes: engine().memoryBytes(),
      skipped: sums['skipped'] ?? 0,
    });
    this.#lastLog = now;
    this.#itemsSinceLog = 0;
  }

  /** Means of the epoch over the items of its updates; an update that was left out is not in them. */
  #trainMetrics(): Record<string, number> {
    const { items = 0, skipped = 0, ...losses } = this.#point.sums;
    const metrics: Record<string, number> = {};
    for (const [name, value] of Object.entries(losses)) metrics[`train/${name}`] = value / Math.max(1, items);
    metrics['train/skipped'] = skipped;
    return metrics;
  }

  #isLimited(): boolean {
    const { limitUpdates } = this.input;
    return limitUpdates !== undefined && this.#point.update >= limitUpdates;
  }

  // ------------------------------------------------------------------------------------------------------- phases and ending

  /** Asks the strategies whether a new phase begins, and plans and records it. */
  async #advance(): Promise<void> {
    const { input } = this;
    if (this.#point.finished) return;
    const { phase, epoch, history } = this.#point;
    const position = { phase, epoch, epochs: input.epochs };
    const wishes = input.strategies.map(({ strategy }) => strategy.advance?.({ position, history }) ?? 'stay');
    if (wishes.includes('stop')) this.#point = { ...this.#point, finished: true };
    else if (wishes.includes('next-phase')) {
      this.#point = { ...this.#point, phase: phase + 1, phaseEpoch: epoch };
      this.#blueprint.enter(this.#position());
      this.#state = withSlots(this.#blueprint, this.#state!);
      this.#steps?.dispose();
      this.#steps = this.#captureSteps();
      this.#recorded = false;
      await input.emit({ type: 'phase', stage: input.name, phase: phase + 1, groups: this.#blueprint.rows() });
    }
  }

  /** Early stopping. */
  #judge(point: StagePoint, metrics: Readonly<Record<string, number>>, evaluated: boolean): StagePoint {
    const rule = this.input.earlyStop;
    if (rule === undefined || !evaluated) return point;
    const value = metrics[rule.monitor];
    if (value === undefined)
      throw unknownName('UNKNOWN_METRIC', 'metric for `patience`', rule.monitor, Object.keys(metrics));
    const sign = rule.mode === 'max' ? 1 : -1;
    const better = Number.isFinite(value) && (point.best === null || sign * (value - point.best) > rule.minDelta);
    if (better) return { ...point, best: value, stale: 0 };
    const stale = point.stale + 1;
    return { ...point, stale, finished: point.finished || stale >= rule.patience };
  }

  /** A watched metric that cannot come is an error before the first update, not after the first epoch. */
  #checkMonitor(): void {
    const { earlyStop, evaluate, name } = this.input;
    if (earlyStop === undefined) return;
    if (evaluate === undefined) {
      throw new AlambicError(
        'UNKNOWN_METRIC',
        `stage "${name}" has \`patience\`, but nothing is evaluated while it trains`,
        { hint: 'Add a split `dev` to `data.splits`, or take `patience` away.' },
      );
    }
    if (!earlyStop.monitor.startsWith('train/')) return;
    const known = ['total', 'skipped', ...this.#blueprint.terms.map((term) => term.name)].map((key) => `train/${key}`);
    if (!known.includes(earlyStop.monitor))
      throw unknownName('UNKNOWN_METRIC', 'metric for `patience`', earlyStop.monitor, known);
  }

  /** A stage whose every update was left out has learned nothing, however its metrics look. */
  #checkLearned(): void {
    const { update } = this.#point;
    if (update === 0 || this.#state!.counters.updates.dataSync()[0]! > 0) return;
    throw new AlambicError('NOT_FINITE', `stage "${this.input.name}": none of its ${update} updates was finite`, {
      hint: 'A loss or a gradient is NaN or infinite from the start: look at the losses in the log; `--engine eager` helps to find the op.',
    });
  }

  #notFinite(losses: Readonly<Record<string, number>>): AlambicError {
    const bad = Object.entries(losses).filter(([, value]) => !Number.isFinite(value));
    const what = bad.length === 0 ? 'the gradients were' : `${bad.map(([name]) => name).join(', ')} was`;
    return new AlambicError(
      'NOT_FINITE',
      `stage "${this.input.name}", epoch ${this.#point.epoch}: ${what} not finite in ${MOST_SKIPPED} updates in a row`,
      {
        hint: 'Lower the rate, add `clip: { norm: 1 }` or a warm-up; the last checkpoint is from before. `--engine eager` helps to find the op.',
      },
    );
  }

  // ------------------------------------------------------------------------------------------------------------------- parts

  #position(): Position {
    const { phase, phaseEpoch } = this.#point;
    return { phase, epoch: phaseEpoch, epochs: this.input.epochs };
  }

  #captureSteps(): StageSteps {
    const { emit, name } = this.input;
    return captureSteps(
      this.#blueprint.definition((names) => {
        // Once a stage: every signature is recorded anew, and the eager engine runs the function each time.
        const key = names.join();
        if (this.#warned.has(key)) return;
        this.#warned.add(key);
        void emit({
          type: 'warning',
          code: 'UNREACHED_PARAMETERS',
          message: `no loss of stage "${name}" depends on ${names.length} trainable parameter(s): ${names.slice(0, 5).join(', ')}${names.length > 5 ? ', …' : ''}`,
        });
      }),
    );
  }

  #teachers(): Record<string, ModelState> {
    return Object.fromEntries(
      Object.entries(this.input.teachers).map(([name, { state }]) => [
        name,
        { params: state.params, buffers: state.buffers },
      ]),
    );
  }

  async #save(reason: 'epoch' | 'interval' | 'signal' | 'end'): Promise<void> {
    await this.input.save(this.#point, readTree(this.#state as never), reason);
  }

  /** The student's values that are evaluated and handed on. */
  #evaluated(): ModelState {
    return studentValues(this.#state!, this.input.ema?.evaluate === true);
  }
}
