import * as tf from '@tensorflow/tfjs-core';
import { createLoader } from '../../src/data/loader.ts';
import type { Source } from '../../src/data/source.ts';
import { memorySource } from '../../src/data/sources/memory.ts';
import type { TensorRecord } from '../../src/formats/safetensors.ts';
import { describeModule, initialise } from '../../src/nn/describe.ts';
import { BatchNorm, Conv, Dense, Dropout, GlobalPool } from '../../src/nn/layers/index.ts';
import type { Backbone, ModelState, Scope } from '../../src/nn/module.ts';
import { AdamW } from '../../src/optim/adamw.ts';
import { Constant } from '../../src/optim/schedules/constant.ts';
import { Sgd } from '../../src/optim/sgd.ts';
import type { Optimizer, RunEvent, Schedule, Strategy } from '../../src/plugin-host/contract.ts';
import { Supervised } from '../../src/strategies/supervised.ts';
import { disposeModel } from '../../src/train/fingerprint.ts';
import type { NamedStrategy } from '../../src/train/groups.ts';
import { StageRunner } from '../../src/train/stage.ts';
import type { StageInput, StageModel, StagePoint } from '../../src/train/stage-input.ts';

/** Two convolutions, the second with stride; small enough that a step takes a millisecond. */
export class SmallNet implements Backbone {
  readonly architecture = 'small';
  readonly classifier = 'fc';
  readonly featureTap = 'features';
  readonly depthGroups = [
    { name: 'low', prefixes: ['conv1', 'bn1'] },
    { name: 'high', prefixes: ['conv2', 'bn2'] },
    { name: 'fc', prefixes: ['fc'] },
  ];
  readonly #conv1 = new Conv(4, { kernel: 3, padding: 1 });
  readonly #conv2: Conv;
  readonly #pool = new GlobalPool();
  readonly #drop: Dropout | undefined;
  readonly #fc: Dense;

  constructor(
    readonly inputSize: readonly [number, number, number] = [8, 8, 1],
    readonly classes = 3,
    readonly options: { readonly norm?: boolean; readonly dropRate?: number; readonly width?: number } = {},
  ) {
    this.#conv2 = new Conv(options.width ?? 6, { kernel: 3, stride: 2, padding: 1 });
    this.#drop = (options.dropRate ?? 0) > 0 ? new Dropout(options.dropRate!) : undefined;
    this.#fc = new Dense(classes);
  }

  call(scope: Scope, x: tf.Tensor): tf.Tensor {
    const norm = this.options.norm ?? true;
    let y = this.#conv1.call(scope.child('conv1'), x);
    if (norm) y = new BatchNorm().call(scope.child('bn1'), y);
    y = this.#conv2.call(scope.child('conv2'), tf.relu(y));
    if (norm) y = new BatchNorm().call(scope.child('bn2'), y);
    y = this.#pool.call(scope.child('features'), tf.relu(y));
    if (this.#drop !== undefined) y = this.#drop.call(scope.child('drop'), y);
    return this.#fc.call(scope.child('fc'), y);
  }
}

/** Without norm the depth groups must not name its prefixes. */
export class PlainNet extends SmallNet {
  override readonly depthGroups = [
    { name: 'low', prefixes: ['conv1'] },
    { name: 'high', prefixes: ['conv2'] },
    { name: 'fc', prefixes: ['fc'] },
  ];
  constructor(inputSize?: readonly [number, number, number], classes?: number) {
    super(inputSize, classes, { norm: false });
  }
}

/** Images by a closed formula, each class with stripes of its own. */
export function stripes(count: number, classes = 3, size = 8): { images: Uint8Array; labels: number[] } {
  const images = new Uint8Array(count * size * size);
  const labels: number[] = [];
  for (let n = 0; n < count; n++) {
    const label = n % classes;
    labels.push(label);
    for (let y = 0; y < size; y++)
      for (let x = 0; x < size; x++) {
        const wave = Math.sin((label + 1) * 0.9 * x + 0.37 * n) + 0.5 * Math.cos(0.8 * y + n);
        images[(n * size + y) * size + x] = Math.round(127 + 80 * wave);
      }
  }
  return { images, labels };
}

export function stripeSource(count: number, options: { labels?: readonly number[]; classes?: number } = {}): Source {
  const { images, labels } = stripes(count, options.classes);
  const names = Array.from({ length: options.classes ?? 3 }, (_, i) => `class-${i}`);
  return memorySource({ images, height: 8, width: 8, labels: options.labels ?? labels, names });
}

export function stageModel(name: string, backbone: Backbone): StageModel {
  return { name, backbone, description: describeModule(backbone) };
}

export const sgd = (options: { rate?: number; momentum?: number; decay?: number } = {}): Optimizer =>
  new Sgd({ rate: 0.1, momentum: 0.9, nesterov: false, decay: 0, decayRoles: ['kernel'], ...options });

export const adamw = (options: { rate?: number; decay?: number } = {}): Optimizer =>
  new AdamW({ rate: 0.01, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, decay: 0, decayRoles: ['kernel'], ...options });

export const supervised = (): NamedStrategy => ({
  name: 'supervised',
  strategy: new Supervised({ weight: 1, labelSmoothing: 0 }),
});

export const named = (name: string, strategy: Strategy): NamedStrategy => ({ name, strategy });

/** The last state that a stage saved, and every event. */
export interface Trace {
  readonly events: RunEvent[];
  readonly saves: { point: StagePoint; tensors: TensorRecord; reason: string }[];
}

export type Overrides = Partial<StageInput> & {
  readonly source?: Source;
  readonly batch?: number;
  readonly net?: Backbone;
};

/** A stage over stripes, with whatever a test sets otherwise. */
export function setUpStage(overrides: Overrides = {}): { runner: StageRunner; trace: Trace; initial: ModelState } {
  const { source = stripeSource(22), batch = 4, net = new SmallNet(), ...rest } = overrides;
  const student = rest.student ?? stageModel('student', net);
  const initial = rest.initial ?? initialise(student.description, 5);
  const trace: Trace = { events: [], saves: [] };
  const runner = new StageRunner({
    name: 'stage',
    seed: 3,
    student,
    initial,
    teachers: {},
    strategies: [supervised()],
    labels: source.labels,
    loader: createLoader({ source, inputSize: [8, 8, 1], batchSize: batch, shuffle: true, seed: 3 }),
    preparation: { transforms: [], mean: [0.5], std: [0.25] },
    evaluate: undefined,
    evaluationSplit: 'dev',
    optimizer: sgd(),
    schedule: new Constant({ warmup: 0 } as never) as Schedule,
    epochs: 2,
    accumulate: 1,
    clip: undefined,
    ema: undefined,
    evaluateEvery: 1,
    logEvery: 1,
    saveEvery: 0,
    earlyStop: undefined,
    limitUpdates: undefined,
    emit: (event) => void trace.events.push(event),
    save: async (point, tensors, reason) => {
      const copies = Object.fromEntries(Object.entries(tensors).map(([k, t]) => [k, { ...t, data: t.data.slice() }]));
      trace.saves.push({ point: structuredClone(point), tensors: copies as TensorRecord, reason });
    },
    signal: undefined,
    resume: undefined,
    ...rest,
  });
  return { runner, trace, initial };
}

/** Runs a stage to its end: the tensors it saved last, its history, its events. */
export async function runStage(overrides: Overrides = {}) {
  const { runner, trace, initial } = setUpStage(overrides);
  const result = await runner.run();
  disposeModel(result.state);
  if (overrides.initial === undefined) disposeModel(initial);
  const last = trace.saves[trace.saves.length - 1];
  return { ...trace, ...result, tensors: last?.tensors ?? {}, point: last?.point };
}

/** Values of a saved tensor. */
export function valuesOf(tensors: TensorRecord, path: string): number[] {
  const tensor = tensors[path];
  if (tensor === undefined) throw new Error(`no ${path} among ${Object.keys(tensors).join(', ')}`);
  return Array.from(tensor.data as Float32Array);
}

/** Largest difference of two saved states over the paths of the first; every path must be in both. */
export function largestDifference(a: TensorRecord, b: TensorRecord, filter = (_: string) => true): number {
  let largest = 0;
  for (const path of Object.keys(a).filter(filter)) {
    const [x, y] = [valuesOf(a, path), valuesOf(b, path)];
    x.forEach((value, i) => {
      largest = Math.max(largest, Math.abs(value - y[i]!));
    });
  }
  return largest;
}
