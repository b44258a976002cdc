import type { RunEvent } from '../plugin-host/contract.ts';

type Event<T extends RunEvent['type']> = Extract<RunEvent, { type: T }>;

/** Share of a new value in a smoothed one. */
const FRESH = 0.2;

export interface StageProgress {
  readonly name: string;
  /** Number of the stage in the run, from 1. */
  readonly number: number;
  readonly epochs: number;
  readonly updates: number;
  readonly startedAt: number;
  epoch: number;
  update: number;
  /** Smoothed losses by name, `total` first. */
  losses: Record<string, number>;
  rate: number | undefined;
  itemsPerSecond: number | undefined;
  waiting: number;
  memoryBytes: number;
  skipped: number;
  /** Latest metrics of each evaluated split. */
  evaluations: Record<string, { epoch: number; metrics: Readonly<Record<string, number>> }>;
  /** The first metric of each evaluation of `dev`, or of the split that is evaluated. */
  history: number[];
  recording: boolean;
  /** Where updates are counted from to estimate the time left. */
  first: { update: number; at: number } | undefined;
}

/** What a run's events say of how far it is; milliseconds of any clock are handed in, so that it can be tested. */
export class Progress {
  stages: readonly string[] = [];
  folder = '';
  resumed = false;
  startedAt = 0;
  interrupted = false;
  stage: StageProgress | undefined;
  /** Seconds and relative work of finished stages. */
  readonly finished = new Map<string, number>();
  #work: readonly number[] | undefined;

  /** Takes in an event that happened at `now` [ms]. */
  take(event: RunEvent, now: number): void {
    switch (event.type) {
      case 'run-start':
        this.stages = event.stages;
        this.folder = event.folder;
        this.resumed = event.resumed;
        this.startedAt = now;
        this.#work = event.work;
        break;
      case 'stage-start':
        this.stage = this.#startStage(event, now);
        break;
      case 'recorded':
      case 'phase':
        if (this.stage !== undefined) this.stage.recording = event.type === 'phase';
        break;
      case 'step':
        this.#takeStep(event, now);
        break;
      case 'evaluation':
        this.#takeEvaluation(event);
        break;
      case 'epoch-end':
        if (this.stage !== undefined) this.stage.epoch = Math.min(event.epoch + 1, this.stage.epochs);
        break;
      case 'stage-end':
        this.finished.set(event.stage, event.seconds);
        this.stage = undefined;
        break;
      case 'interrupted':
        this.interrupted = true;
        break;
      case 'checkpoint':
      case 'warning':
      case 'run-end':
        break;
    }
  }

  /** Seconds until the stage ends; undefined while there is nothing to go by. */
  secondsLeftOfStage(now: number): number | undefined {
    const { stage } = this;
    if (stage?.first === undefined) return undefined;
    const done = stage.update - stage.first.update;
    const left = stage.updates - stage.update;
    if (left <= 0) return 0;
    if (done <= 0) return undefined;
    return ((now - stage.first.at) / 1000 / done) * left;
  }

  /**
   * Seconds until the run ends. Stages to come are taken to need the time that their share of the work implies; without the run's own
   * figures, as long as the mean of the others.
   */
  secondsLeftOfRun(now: number): number | undefined {
    const left = this.secondsLeftOfStage(now);
    const { stage } = this;
    if (left === undefined || stage === undefined) return undefined;
    const workOf = (index: number) => this.#work?.[index] ?? 1;
    let seconds = (now - stage.startedAt) / 1000 + left;
    let work = workOf(stage.number - 1);
    let toCome = 0;
    this.stages.forEach((name, index) => {
      const took = this.finished.get(name);
      if (took !== undefined) {
        seconds += took;
        work += workOf(index);
      } else if (index > stage.number - 1) {
        toCome += workOf(index);
      }
    });
    return work > 0 ? left + (seconds / work) * toCome : left;
  }

  #startStage(event: Event<'stage-start'>, now: number): StageProgress {
    return {
      name: event.stage,
      number: Math.max(0, this.stages.indexOf(event.stage)) + 1,
      epochs: event.epochs,
      updates: event.epochs * event.updatesPerEpoch,
      startedAt: now,
      epoch: 0,
      update: 0,
      losses: {},
      rate: undefined,
      itemsPerSecond: undefined,
      waiting: 0,
      memoryBytes: 0,
      skipped: 0,
      evaluations: {},
      history: [],
      recording: true,
      first: undefined,
    };
  }

  #takeStep(event: Event<'step'>, now: number): void {
    const { stage } = this;
    if (stage === undefined) return;
    stage.first ??= { update: event.update, at: now };
    stage.recording = false;
    stage.epoch = event.epoch;
    stage.update = event.update;
    for (const [name, value] of Object.entries(event.losses)) {
      const before = stage.losses[name];
      stage.losses[name] = before === undefined || !Number.isFinite(before) ? value : before + FRESH * (value - before);
    }
    stage.rate = event.rate;
    stage.itemsPerSecond = event.itemsPerSecond;
    stage.waiting = event.waiting;
    stage.memoryBytes = event.memoryBytes;
    stage.skipped = event.skipped;
  }

  #takeEvaluation(event: Event<'evaluation'>): void {
    const { stage } = this;
    if (stage === undefined) return;
    stage.evaluations[event.split] = { epoch: event.epoch, metrics: event.metrics };
    const [first] = Object.values(event.metrics);
    if (first !== undefined) stage.history.push(event.metrics['top1'] ?? first);
  }
}
