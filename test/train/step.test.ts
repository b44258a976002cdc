import { readFileSync } from 'node:fs';
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, test } from 'vitest';
import type { HostBatch } from '../../src/data/source.ts';
import { engine } from '../../src/engine/engine.ts';
import { fromTorchLayout, toTorchLayout } from '../../src/nn/layout.ts';
import type { ModelState, Tensors } from '../../src/nn/module.ts';
import type { Optimizer, Strategy } from '../../src/plugin-host/contract.ts';
import { StageBlueprint } from '../../src/train/stage-blueprint.ts';
import { initialState } from '../../src/train/stage-state.ts';
import { captureSteps, runUpdate } from '../../src/train/stage-update.ts';
import type { TrainState } from '../../src/train/state.ts';
import { openTestEngine } from '../engine-setup.ts';
import {
  adamw,
  named,
  type Overrides,
  PlainNet,
  SmallNet,
  setUpStage,
  sgd,
  stageModel,
  stripes,
  supervised,
} from './stage-setup.ts';

interface Fixture {
  readonly history: readonly { readonly loss: number; readonly norm: number }[];
  readonly values: Readonly<Record<string, number[]>>;
  readonly ema: Readonly<Record<string, number[]>>;
  readonly slots: Readonly<Record<string, number[]>>;
}
const fixture = JSON.parse(readFileSync(new URL('../fixtures/train/step.json', import.meta.url), 'utf8')) as {
  readonly order: readonly string[];
  readonly sgd: Fixture;
  readonly adamw: Fixture;
};

beforeAll(openTestEngine);

/** Batches of these sizes over the stripes from item `first` on; every fourth item has no label. */
function windowOf(
  sizes: readonly number[],
  first: number,
  labelOf = (item: number) => (item % 4 === 3 ? -1 : item % 3),
) {
  const all = stripes(first + sizes.reduce((a, b) => a + b, 0)).images;
  let at = first;
  return sizes.map((size): HostBatch => {
    const begin = at;
    at += size;
    return {
      images: all.subarray(begin * 64, at * 64),
      shape: [size, 8, 8, 1],
      labels: Int32Array.from({ length: size }, (_, i) => labelOf(begin + i)),
      indices: Int32Array.from({ length: size }, (_, i) => begin + i),
      epoch: 0,
      offset: begin,
      nextOffset: at,
    };
  });
}

/** A term over all items beside the cross-entropy over the labelled ones. */
const flat: Strategy = {
  terms: ({ student }) => ({ flat: { loss: tf.sum(tf.square(student.output), 1), over: 'items', weight: 0.1 } }),
};

/** The values that the script fills in, in our layout. */
function closedFormValues(): ModelState {
  const { description } = stageModel('small', new SmallNet());
  const params: Tensors = {};
  for (const { name, shape, role } of description.parameters) {
    const count = shape.reduce((a, b) => a * b, 1);
    const k = fixture.order.indexOf(name);
    const values = Float32Array.from({ length: count }, (_, i) => {
      const value = 0.4 * Math.sin(0.7 * i + k);
      return role === 'norm' && name.endsWith('weight') ? 1 + value / 2 : value;
    });
    params[name] = tf.tensor(fromTorchLayout({ shape, role }, values), [...shape]);
  }
  const buffers: Tensors = Object.fromEntries(
    description.buffers.map(({ name, shape }) => [
      name,
      name.endsWith('var') ? tf.ones([...shape]) : tf.zeros([...shape]),
    ]),
  );
  return { params, buffers };
}

/** Runs updates of uneven windows; the total loss and gradient norm of each, and the state. */
async function runWindows(overrides: Overrides, windows: readonly HostBatch[][], rate: number) {
  const { runner } = setUpStage(overrides);
  const blueprint = new StageBlueprint(runner.input, { phase: 0, epoch: 0, epochs: 1 });
  const steps = captureSteps(blueprint.definition(() => undefined));
  let state = initialState(blueprint);
  const losses: Readonly<Record<string, number>>[] = [];
  const norms: number[] = [];
  for (const batches of windows) {
    const outcome = await runUpdate(
      steps,
      state,
      {},
      {
        batches,
        rates: blueprint.plan.groups.map((group) => rate * group.rate),
        weights: blueprint.weightsAt(0),
        momentum: 0,
        termNames: blueprint.terms.map(({ name }) => name),
      },
    );
    state = outcome.state;
    losses.push(outcome.losses);
    norms.push(outcome.gradientNorm);
  }
  steps.dispose();
  return { state, losses, norms };
}

const inTorchLayout = (name: string, tensor: tf.Tensor): ArrayLike<number> => {
  const role = name.endsWith('weight') && tensor.rank > 1 ? 'kernel' : undefined;
  const values = tensor.dataSync() as Float32Array;
  return role === undefined ? values : toTorchLayout({ shape: tensor.shape, role }, values).data;
};

function expectClose(actual: ArrayLike<number>, expected: readonly number[], tolerance: number, what: string): void {
  expect(actual.length, what).toBe(expected.length);
  const largest = expected.reduce((max, value, i) => Math.max(max, Math.abs(value - actual[i]!)), 0);
  expect(largest, what).toBeLessThan(tolerance);
}

describe('a step is PyTorch’s', () => {
  const windows = Array.from({ length: 10 }, (_, u) => windowOf([5, 3, 2], u * 10));
  const cases: [
    name: 'sgd' | 'adamw',
    optimizer: () => Optimizer,
    rate: number,
    tolerance: number,
    slots: Record<string, string>,
  ][] = [
    // Torch's own float32 run is 2e-6 away from its float64 one.
    ['sgd', () => sgd({ rate: 0.05, momentum: 0.9, decay: 0.01 }), 0.05, 5e-6, { velocity: 'momentum_buffer' }],
    // Adam divides by the root of the mean square, which makes rounding of small gradients larger.
    ['adamw', () => adamw({ rate: 0.01, decay: 0.05 }), 0.01, 5e-5, { mean: 'exp_avg', square: 'exp_avg_sq' }],
  ];
  test.each(cases)(
    '%s: 10 updates of 5 + 3 + 2 items with BatchNorm, decay, clipping, EMA',
    async (name, make, rate, tolerance, slots) => {
      const expected = fixture[name];
      const { state, losses, norms } = await runWindows(
        {
          strategies: [supervised(), named('flat', flat)],
          initial: closedFormValues(),
          optimizer: make(),
          accumulate: 3,
          clip: { norm: 0.5 },
          ema: { decay: 0.9, warmup: false, evaluate: true },
        },
        windows,
        rate,
      );
      expectClose(
        losses.map(({ total }) => total!),
        expected.history.map(({ loss }) => loss),
        tolerance,
        'losses',
      );
      expectClose(
        norms,
        expected.history.map(({ norm }) => norm),
        tolerance * 10,
        'gradient norms',
      );
      const check = (tensors: Tensors, values: Readonly<Record<string, number[]>>, what: string) => {
        for (const [key, tensor] of Object.entries(tensors)) {
          const wanted = values[key];
          expect(wanted, `${what} ${key}`).toBeDefined();
          expectClose(inTorchLayout(key, tensor), wanted!, tolerance, `${what} ${key}`);
        }
      };
      check({ ...state.params, ...state.buffers }, expected.values, 'value');
      check({ ...state.ema.params, ...state.ema.buffers }, expected.ema, 'average');
      for (const [ours, theirs] of Object.entries(slots)) {
        const tensors = Object.fromEntries(Object.entries(state.slots).map(([key, record]) => [key, record[ours]!]));
        for (const [key, tensor] of Object.entries(tensors))
          expectClose(inTorchLayout(key, tensor), expected.slots[`${key}/${theirs}`]!, tolerance, `${ours} ${key}`);
      }
      expect((state.counters.updates.dataSync() as Int32Array)[0]).toBe(10);
      expect((state.counters.batches.dataSync() as Int32Array)[0]).toBe(30);
    },
  );
});

describe('accumulation', () => {
  const plain = (): Overrides => {
    const student = stageModel('plain', new PlainNet());
    return { student, strategies: [supervised(), named('flat', flat)], optimizer: sgd({ rate: 0.1, momentum: 0 }) };
  };
  const differenceOf = (a: TrainState, b: TrainState) =>
    Object.keys(a.params).reduce((max, name) => {
      const x = a.params[name]!.dataSync() as Float32Array;
      const y = b.params[name]!.dataSync() as Float32Array;
      return x.reduce((m, value, i) => Math.max(m, Math.abs(value - y[i]!)), max);
    }, 0);

  test.each([
    ['equal', [4, 4, 4]],
    ['uneven', [7, 1, 4]],
    ['tail of one', [8, 3, 1]],
  ])('micro-batches of %s size are one big batch, with other shares of labels in each', async (_, sizes) => {
    // Labels only among the first items: some micro-batches have many, the last has none.
    const labelOf = (item: number) => (item < 6 ? item % 3 : -1);
    const big = await runWindows(plain(), [windowOf([12], 0, labelOf)], 0.1);
    const small = await runWindows({ ...plain(), accumulate: 3 }, [windowOf(sizes, 0, labelOf)], 0.1);
    for (const term of Object.keys(big.losses[0]!))
      expect(small.losses[0]![term]).toBeCloseTo(big.losses[0]![term]!, 5);
    // float32 sums in another order.
    expect(differenceOf(big.state, small.state)).toBeLessThan(1e-6);
    const start = await runWindows(plain(), [], 0.1);
    expect(differenceOf(big.state, start.state)).toBeGreaterThan(1e-3);
  });

  test('the tail of an epoch is the mean over its own items', async () => {
    const tail = await runWindows({ ...plain(), accumulate: 3 }, [windowOf([2], 4)], 0.1);
    const alone = await runWindows(plain(), [windowOf([2], 4)], 0.1);
    expect(differenceOf(tail.state, alone.state)).toBe(0);
  });

  test('a window without any label moves nothing by its labelled terms', async () => {
    const none = () => -1;
    const { losses, state } = await runWindows(
      { ...plain(), strategies: [supervised()] },
      [windowOf([4], 0, none)],
      0.1,
    );
    const start = await runWindows(plain(), [], 0.1);
    expect(losses[0]!['total']).toBe(0);
    expect(differenceOf(state, start.state)).toBe(0);
  });
});

test('eager, graph and XLA take the same first steps', async () => {
  const windows = [0, 1, 2].map((u) => windowOf([4, 3], u * 7));
  const results = [];
  for (const mode of ['eager', 'graph', 'xla'] as const) {
    engine().mode = mode;
    results.push(
      await runWindows(
        {
          strategies: [supervised(), named('flat', flat)],
          accumulate: 2,
          optimizer: adamw(),
          ema: { decay: 0.9, warmup: true, evaluate: true },
        },
        windows,
        0.01,
      ),
    );
  }
  engine().mode = 'graph';
  const [eager, graph, xla] = results;
  for (const other of [graph!, xla!]) {
    other.losses.forEach((losses, i) => {
      for (const [name, value] of Object.entries(losses)) expect(value).toBeCloseTo(eager!.losses[i]![name]!, 4);
    });
    for (const [name, tensor] of Object.entries(eager!.state.params))
      expectClose(other.state.params[name]!.dataSync(), Array.from(tensor.dataSync()), 2e-4, name);
  }
});
