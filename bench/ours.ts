// One contender: alambic, by the same calls that a stage of a recipe makes. Started by bench/run.ts with the job as JSON.
import 'reflect-metadata';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { type Captured, capture } from '../src/engine/capture.ts';
import { type EngineMode, openEngine } from '../src/engine/engine.ts';
import { bytesTensor } from '../src/engine/kernels/index.ts';
import { describeModule, initialise } from '../src/nn/describe.ts';
import type { Backbone, ModelState } from '../src/nn/module.ts';
import { createBackbone } from '../src/nn/zoo.ts';
import { Sgd } from '../src/optim/sgd.ts';
import { Distillation } from '../src/strategies/distillation/distillation.ts';
import { Supervised } from '../src/strategies/supervised.ts';
import { type NamedStrategy, parameterTree, planGroups } from '../src/train/groups.ts';
import type { TrainState } from '../src/train/state.ts';
import { makeStep, packKnobs, type StepDefinition, unpackMetrics } from '../src/train/step.ts';
import type { Tree } from '../src/tree.ts';
import { mapTree } from '../src/tree.ts';
import { CLASSES, OPTIMIZER, type Workload } from './workloads.ts';

/** What the driver asks for: a workload to step through, or the costs on the JavaScript side. */
export type Job =
  | ({ readonly kind: 'workload'; readonly mode: EngineMode; readonly threads: number } & Workload)
  | { readonly kind: 'overhead'; readonly threads: number };

type Step = Captured<Tree<Tensor>[], Tree<Tensor>>;

const dispose = (tree: object) => tf.dispose(tree as tf.TensorContainer);

function backboneOf(name: string, inputSize: readonly [number, number, number]): Backbone {
  if (name === 'resnet18-cifar')
    return createBackbone('resnet18', { inputSize, classes: CLASSES, options: { stem: 'cifar' } });
  return createBackbone(name === 'mobilenetv2' ? 'mobilenetv2_100' : name, { inputSize, classes: CLASSES });
}

/** A stage's step over a fixed batch, with the state that goes round. */
class Training {
  readonly parameters: number;
  readonly #step: Step;
  readonly #teachers: Readonly<Record<string, ModelState>> = {};
  readonly #batch: { images: Tensor; labels: Tensor };
  readonly #knobs: Float32Array;
  #state: TrainState;

  constructor({ student: name, teacher, temperature = 4, batch, inputSize }: Workload) {
    const student = backboneOf(name, inputSize);
    const description = describeModule(student);
    const strategies: NamedStrategy[] = [
      { name: 'supervised', strategy: new Supervised({ weight: 1, labelSmoothing: 0 }) },
    ];
    const teachers: Record<string, { module: Backbone; mode: 'infer' }> = {};
    if (teacher !== undefined) {
      const module = backboneOf(teacher, inputSize);
      teachers['teacher'] = { module, mode: 'infer' };
      this.#teachers = { teacher: initialise(describeModule(module), 2) };
      const noLoss = () => {
        throw new Error('the workload names no loss plugin');
      };
      strategies.push({
        name: 'distillation',
        strategy: new Distillation({ temperature, weight: 1, start: 0, stop: 1 }, noLoss),
      });
    }
    const tree = parameterTree(description, []);
    const plan = planGroups(tree, strategies, { phase: 0, epoch: 0, epochs: 1 });
    const optimizer = new Sgd({
      ...OPTIMIZER,
      nesterov: false,
      decayRoles: ['kernel', 'depthwise-kernel', 'bias', 'norm'],
    });
    const termNames = teacher === undefined ? ['supervised/ce'] : ['supervised/ce', 'distillation/kd'];
    const definition: StepDefinition = {
      stage: 'bench',
      seed: 1,
      student,
      teachers,
      modules: {},
      strategies,
      optimizer,
      roles: new Map(description.parameters.map((spec) => [spec.name, spec.role])),
      plan,
      preparation: { transforms: [], mean: [0.5], std: [0.25] },
      clip: undefined,
      ema: undefined,
      accumulates: false,
      cyclesMomentum: false,
      termNames,
    };
    this.#step = capture(
      'step bench',
      makeStep(definition, true) as unknown as (...args: Tree<Tensor>[]) => Tree<Tensor>,
    );
    const int = () => tf.scalar(0, 'int32');
    this.#state = {
      ...initialise(description, 1),
      slots: {},
      ema: { params: {}, buffers: {}, counters: {} },
      accumulator: {},
      scaler: {},
      counters: { updates: int(), batches: int(), skipped: int() },
    };
    this.#state = {
      ...this.#state,
      slots: Object.fromEntries(
        Object.entries(this.#state.params).map(([key, value]) => [key, optimizer.init(key, value)]),
      ),
    };
    // Any fixed pixels do: a linear congruential generator spreads them over 0..255.
    let seed = 1;
    const pixels = Uint8Array.from({ length: batch * inputSize.reduce((a, b) => a * b, 1) }, () => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      return seed >>> 24;
    });
    this.#batch = {
      images: bytesTensor(pixels, [batch, ...inputSize]),
      labels: tf.tensor1d(
        Array.from({ length: batch }, (_, i) => i % CLASSES),
        'int32',
      ),
    };
    this.#knobs = packKnobs({
      rates: plan.groups.map((group) => OPTIMIZER.rate * group.rate),
      weights: termNames.map(() => 1),
      items: batch,
      labelled: batch,
      momentum: 0,
    });
    this.parameters = description.parameterCount;
  }

  /** Milliseconds of recording and passes, and the number of ops that run. */
  record(): { milliseconds: number; ops: number } {
    const knobs = tf.tensor1d(this.#knobs);
    const info = this.#step.record(this.#state as never, this.#teachers as never, this.#batch, knobs);
    knobs.dispose();
    return info;
  }

  /** One update, as `StageRunner` makes it; gives the loss. */
  async step(): Promise<number> {
    const knobs = tf.tensor1d(this.#knobs);
    const before = this.#state;
    const result = (await this.#step(before as never, this.#teachers as never, this.#batch, knobs)) as unknown as {
      state: TrainState;
      metrics: Tensor;
    };
    const { total, finite } = unpackMetrics(result.metrics.dataSync() as Float32Array);
    dispose([result.metrics, knobs, before]);
    this.#state = result.state;
    if (!finite) throw new Error(`the step is not finite (loss ${total})`);
    return total;
  }
}

function peakBytes(): number {
  try {
    const line = /^VmHWM:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'ascii'));
    if (line !== null) return Number(line[1]) * 1024;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  return process.resourceUsage().maxRSS * 1024;
}

const send = (message: object) => process.stdout.write(`@bench ${JSON.stringify(message)}\n`);

async function timed<T>(run: () => Promise<T>): Promise<{ milliseconds: number; result: T }> {
  const started = performance.now();
  const result = await run();
  return { milliseconds: performance.now() - started, result };
}

async function serveWorkload(job: Job & { kind: 'workload' }): Promise<void> {
  const started = performance.now();
  const engine = await openEngine({ device: 'cpu', mode: job.mode, threads: job.threads });
  const training = new Training(job);
  const build = performance.now() - started;
  const { milliseconds: recording, ops } = training.record();
  const first = await timed(() => training.step());
  send({
    event: 'ready',
    versions: { node: process.versions.node, tensorflow: engine.version },
    parameters: training.parameters,
    build,
    recording,
    ops,
    firstStep: recording + first.milliseconds,
    loss: first.result,
  });
  for await (const line of createInterface({ input: process.stdin })) {
    const message = JSON.parse(line) as { command: 'run' | 'stop'; steps?: number };
    if (message.command === 'stop') {
      send({ event: 'stopped', peakBytes: peakBytes(), tensors: engine.tensorCount() });
      return;
    }
    const milliseconds: number[] = [];
    const losses: number[] = [];
    for (let i = 0; i < (message.steps ?? 1); i++) {
      const { milliseconds: time, result } = await timed(() => training.step());
      milliseconds.push(time);
      losses.push(result);
    }
    send({ event: 'ran', milliseconds, losses });
  }
}

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1]!;

/**
 * Time of a recorded step outside of TFE_Execute: a function of 320 leaves that computes next to nothing. The call is timed as the
 * product makes it, on koffi's worker thread; the time inside is that of the same call made synchronously, so that the hop to the
 * worker and back counts as overhead.
 */
async function measureStepOverhead(leaves: number, steps: number): Promise<{ step: number; inside: number }> {
  const engine = await openEngine();
  let state: Tree<Tensor> = Object.fromEntries(
    Array.from({ length: leaves }, (_, i) => [`leaf${i}`, tf.fill([64], i)]),
  );
  const decay = capture('overhead', (tree: Tree<Tensor>) => mapTree<Tensor, Tensor>(tree, (leaf) => tf.mul(leaf, 0.5)));
  const step = async () => {
    const next = await decay(state);
    dispose(state);
    state = next;
  };
  for (let i = 0; i < 50; i++) await step();
  const times: number[] = [];
  for (let i = 0; i < steps; i++) times.push((await timed(step)).milliseconds);

  const { library } = engine.binding;
  const execute = library.execute;
  const inside: number[] = [];
  const call = (...args: unknown[]) => {
    const done = args.pop() as (error: null) => void;
    const started = performance.now();
    execute(...args);
    inside.push(performance.now() - started);
    done(null);
  };
  Object.assign(library, { execute: Object.assign((...args: unknown[]) => execute(...args), { async: call }) });
  for (let i = 0; i < steps; i++) await step();
  Object.assign(library, { execute });
  dispose(state);
  decay.dispose();
  return { step: median(times), inside: median(inside) };
}

async function serveOverhead(job: Job & { kind: 'overhead' }): Promise<void> {
  await openEngine({ device: 'cpu', mode: 'graph', threads: job.threads });
  const resnet50 = new Training({
    name: 'resnet50',
    title: 'ResNet-50',
    student: 'resnet50',
    batch: 2,
    inputSize: [224, 224, 3],
  });
  const recording = resnet50.record();
  send({ event: 'ready', leaves: 320, recording, ...(await measureStepOverhead(320, 300)) });
}

const job = JSON.parse(process.argv[2] ?? 'null') as Job | null;
if (job === null) throw new Error('bench/ours.ts is started by bench/run.ts');
await (job.kind === 'workload' ? serveWorkload(job) : serveOverhead(job));
process.exit(0);
