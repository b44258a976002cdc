import type { Loader } from '../data/loader.ts';
import type { TensorRecord } from '../formats/safetensors.ts';
import type { Backbone, Mode, ModelDescription, ModelState } from '../nn/module.ts';
import type { Optimizer, RunEvent, Schedule } from '../plugin-host/contract.ts';
import type { NamedStrategy } from './groups.ts';
import type { ClipRule, EmaRule, Preparation } from './step.ts';

/** A network of a stage. */
export interface StageModel {
  readonly name: string;
  readonly backbone: Backbone;
  readonly description: ModelDescription;
}

/** When a stage ends before its last epoch. */
export interface EarlyStop {
  /** Metric that is watched, `dev/top1`. */
  readonly monitor: string;
  /** Whether larger or smaller is better. */
  readonly mode: 'max' | 'min';
  /** Evaluations without a better value after which the stage ends. */
  readonly patience: number;
  /** By how much a value must be better to count. */
  readonly minDelta: number;
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
  readonly earlyStop: EarlyStop | undefined;
  /** Ends the stage after this many updates; the schedule ends there too. */
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
  /** Updates left out so far because something was not finite, and how many of them the last ones in a row were. */
  readonly skipped: number;
  readonly skippedInRow: number;
  readonly finished: boolean;
}

/** The beginning of a stage. */
export const STAGE_BEGIN: StagePoint = {
  phase: 0,
  phaseEpoch: 0,
  epoch: 0,
  offset: 0,
  update: 0,
  history: [],
  best: null,
  stale: 0,
  sums: {},
  skipped: 0,
  skippedInRow: 0,
  finished: false,
};

export interface StageResult {
  /** Raw values, or the average where the stage evaluates its EMA. Belongs to the caller. */
  readonly state: ModelState;
  readonly history: readonly Readonly<Record<string, number>>[];
  readonly updates: number;
  readonly interrupted: boolean;
}
