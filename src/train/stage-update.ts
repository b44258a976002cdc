import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import type { HostBatch } from '../data/source.ts';
import { capture } from '../engine/capture.ts';
import { engine } from '../engine/engine.ts';
import type { ModelState } from '../nn/module.ts';
import { mapTree, type Tree } from '../tree.ts';
import { uploadBatch } from './evaluate.ts';
import type { TrainState } from './state.ts';
import { type DeviceBatch, makeStep, packKnobs, type StepDefinition, unpackMetrics } from './step.ts';

type StepArguments = [TrainState, Readonly<Record<string, ModelState>>, DeviceBatch, Tensor];

/** A recorded step and what is known of its recording. */
interface RecordedStep {
  call(...args: StepArguments): Promise<{ state: TrainState; metrics: Tensor }>;
  readonly recording: { readonly ops: number; readonly milliseconds: number } | undefined;
  dispose(): void;
}

/** The recorded steps of a stage's phase: of a batch that ends an update, and of one that does not. */
export interface StageSteps {
  readonly last: RecordedStep;
  readonly more: RecordedStep | undefined;
  dispose(): void;
}

export function captureSteps(definition: StepDefinition): StageSteps {
  const last = captureStep(definition, true);
  const more = definition.accumulates ? captureStep(definition, false) : undefined;
  return {
    last,
    more,
    dispose: () => {
      last.dispose();
      more?.dispose();
    },
  };
}

function captureStep(definition: StepDefinition, last: boolean): RecordedStep {
  type Trees = Tree<Tensor>[];
  const captured = capture(
    `step ${definition.stage}`,
    makeStep(definition, last) as unknown as (...args: Trees) => Tree<Tensor>,
  );
  const step = {
    recording: undefined as RecordedStep['recording'],
    call: async (...args: StepArguments) => {
      const trees = args as unknown as Trees;
      if (step.recording === undefined)
        step.recording = engine().mode === 'eager' ? { ops: 0, milliseconds: 0 } : captured.record(...trees);
      return (await captured(...trees)) as unknown as { state: TrainState; metrics: Tensor };
    },
    dispose: () => captured.dispose(),
  };
  return step;
}

/** The batches of one update, and what their steps are given besides. */
export interface Window {
  readonly batches: readonly HostBatch[];
  /** Rate of each group. */
  readonly rates: readonly number[];
  /** Weight of each term. */
  readonly weights: readonly number[];
  readonly momentum: number;
  readonly termNames: readonly string[];
}

/** What came out of one update. */
export interface UpdateOutcome {
  readonly state: TrainState;
  /** Weighted total and each term, means over the items of the update. */
  readonly losses: Readonly<Record<string, number>>;
  /** Global norm of the gradient before clipping. */
  readonly gradientNorm: number;
  /** Whether the update counts; else the state is the one before but for its counters. */
  readonly finite: boolean;
}

const dispose = (tree: object) => tf.dispose(tree as tf.TensorContainer);

/** One optimizer update. Takes over the state `before`, which is disposed when the outcome is there; after an error it is as it was. */
export async function runUpdate(
  steps: StageSteps,
  before: TrainState,
  teachers: Readonly<Record<string, ModelState>>,
  window: Window,
): Promise<UpdateOutcome> {
  const { batches, rates, weights, momentum, termNames } = window;
  const items = batches.reduce((sum, { labels }) => sum + labels.length, 0);
  const labelled = batches.reduce(
    (sum, { labels }) => sum + labels.reduce((n, label) => n + (label >= 0 ? 1 : 0), 0),
    0,
  );
  const knobs = tf.tensor1d(packKnobs({ rates, weights, items, labelled, momentum }));
  let state = before;
  let total = 0;
  let finite = true;
  let gradientNorm = 0;
  const terms = new Array<number>(termNames.length).fill(0);
  try {
    for (const [i, hostBatch] of batches.entries()) {
      const step = i === batches.length - 1 ? steps.last : steps.more!;
      const batch = uploadBatch(hostBatch);
      let result: { state: TrainState; metrics: Tensor };
      try {
        result = await step.call(state, teachers, batch, knobs);
      } finally {
        dispose(batch);
      }
      // The state before the window stays alive until it is known whether the window counts.
      if (state !== before) dispose(state);
      state = result.state;
      const metrics = unpackMetrics(result.metrics.dataSync() as Float32Array);
      result.metrics.dispose();
      total += metrics.total;
      gradientNorm = metrics.gradientNorm;
      finite &&= metrics.finite && Number.isFinite(metrics.total);
      metrics.terms.forEach((value, t) => {
        terms[t] = terms[t]! + value;
      });
    }
  } catch (error) {
    if (state !== before) dispose(state);
    throw error;
  } finally {
    knobs.dispose();
  }
  const losses = { total, ...Object.fromEntries(termNames.map((name, t) => [name, terms[t]!])) };
  const kept = finite ? state : skipped(before, state);
  if (!finite) dispose(state);
  dispose(before);
  return { state: kept, losses, gradientNorm, finite };
}

/** The state before an update that does not count: its batches count as seen, and the skip is counted. */
function skipped(before: TrainState, after: TrainState): TrainState {
  const { counters, ...rest } = before;
  return {
    ...(mapTree<Tensor, Tensor>(rest as unknown as Tree<Tensor>, (leaf) => tf.clone(leaf)) as unknown as typeof rest),
    counters: {
      updates: tf.clone(counters.updates),
      batches: tf.clone(after.counters.batches),
      skipped: tf.tidy(() => tf.add(counters.skipped, tf.scalar(1, 'int32'))),
    },
  };
}
