import type { Tensor } from '@tensorflow/tfjs-core';
import type { z } from 'zod';
import type { Key } from '../engine/random.ts';
import type { Mode, ModelDescription, ModelState, Module, Role, Shape, Tensors } from '../nn/module.ts';

/** Version of this contract; a plugin states the one it was written for. */
export const API_VERSION = 1;

export const PLUGIN_KINDS = [
  'model',
  'source',
  'transform',
  'view',
  'loss',
  'strategy',
  'teachers',
  'optimizer',
  'schedule',
  'metric',
  'callback',
  'logger',
  'exporter',
] as const;
export type PluginKind = (typeof PLUGIN_KINDS)[number];

// ---------------------------------------------------------------------------------------------------------------- strategies

/** Where a stage stands, as far as a plan may depend on it. */
export interface Position {
  /** Index of the phase within the stage, from 0; a strategy's `advance` moves it on. */
  readonly phase: number;
  readonly epoch: number;
  readonly epochs: number;
}

/** What a strategy knows when a stage is built, before any value exists. */
export interface BuildView {
  readonly student: ModelDescription;
  /** The student's network, for a strategy that keeps a copy of it among its own modules (a momentum encoder). */
  readonly network: Module;
  readonly teachers: Readonly<Record<string, ModelDescription>>;
  /** Class names of the stage's data. */
  readonly labels: readonly string[];
  readonly batchSize: number;
}

/** One trainable parameter as a plan sees it. */
export interface ParameterInfo {
  readonly name: string;
  readonly shape: Shape;
  readonly role: Role;
  /** Name of the backbone's depth group, or `strategy` for the parameters of a strategy's own modules. */
  readonly depthGroup: string;
}

export interface ParameterTree {
  readonly parameters: readonly ParameterInfo[];
  /** Names of the depth groups from the input to the head. */
  readonly depthGroups: readonly string[];
}

/** How one parameter is to be treated. Plans of several strategies are combined: trainable by AND, rate by product, decay by AND. */
export interface GroupAssignment {
  /** Label shown in the table of groups. */
  readonly group: string;
  /** @default true */
  readonly trainable?: boolean;
  /** Multiplies the stage's learning rate. @default 1 */
  readonly rate?: number;
  /** Whether weight decay applies, where the parameter's role has decay at all. @default true */
  readonly decay?: boolean;
}

export interface GroupPlan {
  /** Must give an assignment for every parameter name; undefined = no rule matched, an error that names the parameter. */
  assign(parameter: ParameterInfo): GroupAssignment | undefined;
  /** Mode per sub-tree of the student, by dotted prefix, the longest match wins; frozen parts are usually `infer`. */
  readonly modes?: Readonly<Record<string, Mode>>;
}

/** The result of one forward pass. */
export interface ForwardView {
  /** The network's output: logits [N,classes] of a classifier. */
  readonly output: Tensor;
  /** The one tap of that exact name; throws UNKNOWN_TAP with the nearest known name. */
  tap(name: string): Tensor;
  /** All taps that match a pattern (`layer*.relu`), in forward order; throws UNKNOWN_TAP where none does. */
  taps(pattern: string): readonly (readonly [name: string, value: Tensor])[];
}

/** The batch inside the recorded step: on the device, augmented, normalised, float32. */
export interface BatchView {
  /** float32 [N,H,W,C], as the network wants them. */
  readonly images: Tensor;
  /** int32 [N]; -1 = no label. Use `labelled` to mask. */
  readonly labels: Tensor;
  /** float32 [N]: 1 where the item has a label. */
  readonly labelled: Tensor;
  /** float32 [N,H,W,C] in 0..1: as decoded, before the stage's transforms. What a strategy makes views of its own from. */
  readonly raw: Tensor;
  /** Images in 0..1 as the networks want them: less the mean, by the standard deviation. */
  normalise(images: Tensor): Tensor;
  readonly size: number;
}

/** What a strategy sees inside the recorded step. Nothing here has a value yet: reading one back is an error. */
export interface StepView {
  readonly batch: BatchView;
  /** The student's one forward pass over `batch.images`, in the stage's mode; made on first use and shared by all strategies. */
  readonly student: ForwardView;
  /** Each teacher's one forward pass over `batch.images`, in mode `infer`, without gradient. */
  readonly teachers: Readonly<Record<string, ForwardView>>;
  /** Runs a model of the stage (`student` or a teacher) over other images. */
  forward(model: string, images: Tensor): ForwardView;
  /** Runs one of the strategy's own modules (see `Strategy.modules`). */
  module(name: string, x: Tensor): Tensor;
  /** The same with the module's taps. */
  forwardModule(name: string, x: Tensor): ForwardView;
  /** Value of a buffer of one of the strategy's own modules, by dotted name below the module. */
  buffer(module: string, name: string): Tensor;
  random(purpose: string): Key;
}

/**
 * A named scalar loss in float32. The step does the averaging, so that accumulation and short batches come out exactly:
 * a [N] tensor is summed over its items and divided by the number of items of the whole update.
 */
export interface Term {
  /** float32 [N] (per item) or scalar (already a mean over the batch). */
  readonly loss: Tensor;
  /** Which items count: all, or those with a label. Only for [N] losses. @default 'items' */
  readonly over?: 'items' | 'labelled';
  /** @default 1 */
  readonly weight?: number;
  /** Name of the weight's schedule knob; set by the stage from the strategy's `weights`. */
}

/**
 * After the optimizer stepped, for EMA, queues and centres. Forward passes are those of the step (before the update); `params` and
 * `buffers` are the student's new values by dotted name.
 */
export interface UpdateView extends StepView {
  readonly params: Tensors;
  readonly buffers: Tensors;
  /** Present values of one of the strategy's own modules, parameters and buffers, by dotted name below the module. */
  values(module: string): Tensors;
}

/** New values of the strategy's own modules, parameters or buffers: `<module>.<dotted name>` -> value of the same shape. */
export type StateUpdates = Record<string, Tensor>;

/** Between two epochs. */
export interface Progress {
  readonly position: Position;
  /** Metrics of each epoch so far, oldest first: `train/ce`, `dev/top1`, … */
  readonly history: readonly Readonly<Record<string, number>>[];
}

/** A network that belongs to a strategy. */
export interface StrategyModule {
  readonly module: Module;
  /** Shape of its input, batch included. */
  readonly inputShape: Shape;
  /** Whether the optimizer trains its parameters; a momentum encoder's are set by `update` instead. @default true */
  readonly trainable?: boolean;
  /** `student`: starts as a copy of the student's values of the same names (a momentum encoder). @default 'fresh' */
  readonly initial?: 'fresh' | 'student';
}

/** What a strategy may do in a stage. Every member is optional; a stage composes several. */
export interface Strategy {
  /** Throws PRECONDITION where the stage's models, data or options do not fit; called before anything else. */
  check?(build: BuildView): void;
  /** Parts of the strategy's own (projector, adapter, momentum encoder, queue); saved with it, dropped on export. */
  modules?(build: BuildView): Record<string, StrategyModule>;
  /** Who trains now, at what rate. */
  groups?(tree: ParameterTree, at: Position): GroupPlan;
  /** Named losses from taps and batch. */
  terms?(step: StepView): Record<string, Term>;
  /** Weight of each term as a pure function of the share of the stage that is done (0..1); the term's own `weight` where absent. */
  weights?(done: number): Record<string, number>;
  /** After the optimizer stepped. */
  update?(step: UpdateView): StateUpdates;
  /** Between epochs: a new phase re-plans groups and re-records the step. */
  advance?(progress: Progress): 'stay' | 'next-phase' | 'stop';
}

// ------------------------------------------------------------------------------------------------------------- other kinds

/** A pure loss between a student's and a teacher's tensor, or between logits and labels; used inside strategies by name. */
export interface Loss {
  /** Preconditions on the dry run's shapes; throws PRECONDITION. */
  check?(shapes: { student: Shape; teacher?: Shape; classes: number; batchSize: number }): void;
  /** [N] losses of a batch. `teacher` is absent for losses on labels. */
  call(inputs: { student: Tensor; teacher?: Tensor; labels?: Tensor }): Tensor;
}

/** Learning rate (or any knob) as a pure function of the update counter. */
export interface Schedule {
  /** Factor of the base rate at update `step` (from 0) of `total`. */
  factor(step: number, total: number, updatesPerEpoch: number): number;
  /** Whether accumulated momentum should follow (one-cycle); undefined = the optimizer's own. */
  momentum?(step: number, total: number, updatesPerEpoch: number): number;
}

/** What the optimizer sees of one parameter besides its value and gradient. */
export interface UpdateContext {
  /** float32 scalar: base rate x schedule x group rate. */
  readonly rate: Tensor;
  /** float32 scalar momentum from the schedule, where it has one. */
  readonly momentum?: Tensor;
  readonly role: Role;
  /** Whether weight decay applies to this parameter. */
  readonly decay: boolean;
}

/** An optimizer as pure functions, keyed by parameter; slots are plain tensors, `step` among them where it is needed. */
export interface Optimizer {
  /** Rate at factor 1 of the schedule, for groups with multiplier 1. */
  readonly baseRate: number;
  /** Weight decay that a parameter of this role gets; for the table of groups. */
  decayOf(role: Role, decay: boolean): number;
  /** First slot values of a parameter. */
  init(name: string, value: Tensor): Tensors;
  /** New value and slots of one parameter. */
  update(
    name: string,
    value: Tensor,
    gradient: Tensor,
    slots: Tensors,
    context: UpdateContext,
  ): { value: Tensor; slots: Tensors };
}

/** A device-side transform of a float32 batch [N,H,W,C] in 0..1, inside the recorded step. */
export interface Transform {
  /** Shape [H,W,C] after the transform. */
  outputShape(input: Shape): Shape;
  call(images: Tensor, context: { key: Key; training: boolean }): Tensor;
}

/** Accumulates over an evaluation, sample by sample. */
export interface Metric {
  update(batch: { logits: Float32Array; labels: Int32Array; classes: number; losses: Float32Array }): void;
  /** Named results, for instance `{ top1: 0.93 }`. */
  result(): Record<string, number>;
}

// ------------------------------------------------------------------------------------------------------------------- events

/** What happens in a run, in order; callbacks and loggers listen. */
export type RunEvent =
  | {
      type: 'run-start';
      folder: string;
      stages: readonly string[];
      resumed: boolean;
      /** Relative cost of each stage, for estimates of the time left; equal where absent. */
      work?: readonly number[];
    }
  | { type: 'stage-start'; stage: string; epochs: number; updatesPerEpoch: number; groups: readonly GroupRow[] }
  | { type: 'recorded'; stage: string; ops: number; milliseconds: number }
  | {
      type: 'step';
      stage: string;
      epoch: number;
      update: number;
      updates: number;
      /** Weighted total and each term, means over the update's items. */
      losses: Readonly<Record<string, number>>;
      rate: number;
      itemsPerSecond: number;
      /** Share of the time since the last event in which the step waited for data, 0..1. */
      waiting: number;
      memoryBytes: number;
      skipped: number;
    }
  | { type: 'evaluation'; stage: string; epoch: number; split: string; metrics: Readonly<Record<string, number>> }
  | { type: 'epoch-end'; stage: string; epoch: number; metrics: Readonly<Record<string, number>>; seconds: number }
  | { type: 'phase'; stage: string; phase: number; groups: readonly GroupRow[] }
  | { type: 'checkpoint'; stage: string; path: string; reason: 'epoch' | 'interval' | 'signal' | 'end' }
  | { type: 'warning'; code: string; message: string }
  | { type: 'stage-end'; stage: string; metrics: Readonly<Record<string, number>>; seconds: number }
  | { type: 'run-end'; seconds: number }
  | { type: 'interrupted'; signal: string; checkpoint: string };

/** A row of the table of groups that is printed before training: printed = used. */
export interface GroupRow {
  readonly group: string;
  readonly parameters: number;
  readonly trainable: boolean;
  readonly rate: number;
  readonly decay: number;
  readonly mode: Mode;
}

export interface Listener {
  on(event: RunEvent): void | Promise<void>;
  close?(): void | Promise<void>;
}

/** Writes a trained model in some format into a folder. */
export interface Exporter {
  export(
    model: { description: ModelDescription; state: ModelState; labels: readonly string[] },
    folder: string,
  ): Promise<void>;
}

// ------------------------------------------------------------------------------------------------------------------- plugins

// biome-ignore lint/suspicious/noExplicitAny: a constructor's parameters are injected, so their types cannot be known here.
export type Constructor<T> = new (...args: any[]) => T;

/** What each kind of plugin must implement. `model` plugins build a network; `source` plugins open a data set. */
export interface KindContracts {
  model: {
    build(input: { inputSize: readonly [number, number, number]; classes: number }): import('../nn/module.ts').Backbone;
  };
  source: { open(): Promise<import('../data/source.ts').Source> };
  transform: Transform;
  view: { views: number; transforms(view: number): readonly Transform[] };
  loss: Loss;
  strategy: Strategy;
  teachers: { combine(outputs: readonly Tensor[], labels: Tensor): Tensor };
  optimizer: Optimizer;
  schedule: Schedule;
  metric: Metric;
  callback: Listener;
  logger: Listener;
  exporter: Exporter;
}

export interface Plugin<K extends PluginKind = PluginKind, O extends z.ZodType = z.ZodType> {
  /** Lower-case with dashes; unique within its kind. */
  readonly name: string;
  readonly kind: K;
  readonly apiVersion: number;
  /** One sentence for `alambic plugins`. */
  readonly description?: string;
  /** Strict zod object; merged into the recipe's schema under `use: name`. */
  readonly options: O;
  /** Class bound in a child container, transient; its options arrive by `@inject(TOKEN.Options)`. */
  readonly implementation: Constructor<KindContracts[K]>;
}
