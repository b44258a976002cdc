import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { engine } from '../../src/engine/engine.ts';
import { initialise } from '../../src/nn/describe.ts';
import type { Strategy } from '../../src/plugin-host/contract.ts';
import { Distillation } from '../../src/strategies/distillation/distillation.ts';
import { disposeModel, fingerprint } from '../../src/train/fingerprint.ts';
import type { NamedStrategy } from '../../src/train/groups.ts';
import type { StageInput } from '../../src/train/stage-input.ts';
import { openTestEngine } from '../engine-setup.ts';
import {
  adamw,
  named,
  type Overrides,
  runStage,
  SmallNet,
  setUpStage,
  sgd,
  stageModel,
  stripeSource,
  supervised,
  valuesOf,
} from './stage-setup.ts';

beforeAll(openTestEngine);

const frozenModes = { conv1: 'infer', bn1: 'infer', conv2: 'infer', bn2: 'infer' } as const;

/** Only the classifier trains in phase 0; from phase 1 on the body too, at a fifth. */
const freezing = (phases: boolean): Strategy => ({
  groups: (_, { phase }) => ({
    assign: ({ depthGroup }) =>
      depthGroup === 'fc' ? { group: 'head' } : { group: 'body', trainable: phase > 0, rate: 0.2 },
    modes: phase > 0 ? {} : frozenModes,
  }),
  ...(phases ? { advance: ({ position }) => (position.epoch === 1 ? 'next-phase' : 'stay') } : {}),
});

describe('freezing', () => {
  test('what is frozen is bit-identical after epochs, BatchNorm statistics, EMA and slots included', async () => {
    const { runner, trace, initial } = setUpStage({
      strategies: [supervised(), named('freezing', freezing(false))],
      optimizer: adamw({ decay: 0.1 }),
      ema: { decay: 0.5, warmup: false, evaluate: true },
    });
    await runner.run();
    const { tensors } = trace.saves[trace.saves.length - 1]!;
    for (const [kind, record] of Object.entries(initial)) {
      for (const [name, tensor] of Object.entries(record as Record<string, tf.Tensor>)) {
        const before = Array.from(tensor.dataSync());
        const frozen = !name.startsWith('fc.');
        expect(JSON.stringify(valuesOf(tensors, `${kind}/${name}`)) === JSON.stringify(before), name).toBe(frozen);
        expect(JSON.stringify(valuesOf(tensors, `ema/${kind}/${name}`)) === JSON.stringify(before), name).toBe(frozen);
      }
    }
    expect(Object.keys(tensors).filter((path) => path.startsWith('slots/') && !path.startsWith('slots/fc.'))).toEqual(
      [],
    );
  });

  test('an unfrozen group begins with AdamW steps of the size of its rate, and the table says which', async () => {
    const { trace, runner } = setUpStage({
      strategies: [supervised(), named('freezing', freezing(true))],
      optimizer: adamw({ rate: 0.01 }),
      saveEvery: 1,
    });
    await runner.run();
    const border = trace.saves.findIndex(({ point }) => point.phase === 1);
    const step = (name: string) => {
      const [a, b] = [border, border + 1].map((i) => valuesOf(trace.saves[i]!.tensors, `params/${name}`));
      return Math.max(...a!.map((value, i) => Math.abs(value - b![i]!)));
    };
    const phase = trace.events.find((event) => event.type === 'phase');
    const rows = phase?.type === 'phase' ? phase.groups : [];
    expect(rows.map(({ group, rate, trainable, mode }) => ({ group, rate, trainable, mode }))).toEqual([
      { group: 'body', rate: 0.002, trainable: true, mode: 'train' },
      { group: 'head', rate: 0.01, trainable: true, mode: 'train' },
    ]);
    // |m̂ / (√v̂ + ε)| = 1 at a parameter's first step.
    expect(step('conv1.weight')).toBeCloseTo(0.002, 5);
    expect(step('conv2.weight')).toBeCloseTo(0.002, 5);
  });

  test('rates of the table are those that are used: steps of plain SGD stand in their ratio', async () => {
    const rates: Strategy = {
      groups: () => ({
        assign: ({ depthGroup }) =>
          depthGroup === 'low'
            ? { group: 'low', rate: 0.25 }
            : depthGroup === 'high'
              ? { group: 'high', rate: 3 }
              : { group: 'fc' },
      }),
    };
    const start = setUpStage().initial;
    const stepsOf = async (strategies: Overrides['strategies']) => {
      const { tensors, events } = await runStage({
        strategies: strategies!,
        optimizer: sgd({ rate: 0.1, momentum: 0 }),
        limitUpdates: 1,
      });
      const first = events[0]!;
      return {
        rows: first.type === 'stage-start' ? first.groups : [],
        step: (name: string) =>
          valuesOf(tensors, `params/${name}`).map(
            (value, i) => value - (start.params[name]!.dataSync() as Float32Array)[i]!,
          ),
      };
    };
    const plain = await stepsOf([supervised()]);
    const grouped = await stepsOf([supervised(), named('rates', rates)]);
    const rateOf = Object.fromEntries(grouped.rows.map(({ group, rate }) => [group, rate]));
    expect(rateOf).toEqual({ low: 0.025, high: 0.30000000000000004, fc: 0.1 });
    for (const [name, group] of Object.entries({ 'conv1.weight': 'low', 'conv2.weight': 'high', 'fc.weight': 'fc' })) {
      const [a, b] = [plain.step(name), grouped.step(name)];
      expect(Math.max(...a.map(Math.abs))).toBeGreaterThan(1e-4);
      a.forEach((value, i) => {
        expect(b[i]! / 1).toBeCloseTo((value * rateOf[group]!) / 0.1, 6);
      });
    }
  });

  test('a frozen parameter of another rate does not change the rate of its group', () => {
    const { runner } = setUpStage({
      strategies: [
        supervised(),
        named('mixed', {
          groups: () => ({
            assign: ({ depthGroup }) => ({
              group: 'one',
              trainable: depthGroup === 'low',
              rate: depthGroup === 'low' ? 2 : 7,
            }),
          }),
        }),
      ],
    });
    expect(runner.layout.plan.groups).toEqual([{ name: 'one', rate: 2 }]);
  });
});

const distil = (options: { teacher?: string; temperature?: number } = {}) =>
  new Distillation({ temperature: 4, weight: 1, start: 0, stop: 1, ...options }, () => {
    throw new Error('no loss plugin');
  });

const teacherOf = (seed: number): StageInput['teachers'][string] => {
  const model = stageModel('teacher', new SmallNet());
  return { ...model, state: initialise(model.description, seed), mode: 'infer' };
};

describe('teachers', () => {
  test('stay as they are, statistics included, while the student learns', async () => {
    const teacher = teacherOf(9);
    const before = fingerprint(teacher.state);
    const { history } = await runStage({
      teachers: { teacher },
      strategies: [named('distillation', distil({ temperature: 1 }))],
      optimizer: adamw(),
      epochs: 5,
    });
    expect(fingerprint(teacher.state)).toBe(before);
    expect(history[4]!['train/distillation/kd']).toBeLessThan(history[0]!['train/distillation/kd']! / 2);
  });

  test('a student that is its teacher has no loss and does not move', async () => {
    const model = stageModel('student', new SmallNet());
    const state = initialise(model.description, 5);
    const { tensors, history } = await runStage({
      student: model,
      initial: state,
      teachers: { teacher: { ...model, state, mode: 'infer' } },
      // In mode infer the student sees what the teacher sees.
      strategies: [
        named('distillation', distil()),
        named('still', { groups: () => ({ assign: () => ({ group: 'all' }), modes: { '': 'infer' } }) }),
      ],
      optimizer: sgd({ rate: 1, momentum: 0 }),
      epochs: 1,
    });
    expect(Math.abs(history[0]!['train/distillation/kd']!)).toBeLessThan(1e-6);
    for (const [name, tensor] of Object.entries(state.params))
      valuesOf(tensors, `params/${name}`).forEach((value, i) => {
        expect(value).toBeCloseTo((tensor.dataSync() as Float32Array)[i]!, 5);
      });
  });

  test('two uses with two teachers have terms of their own, whose gradients add up', async () => {
    const teachers = { one: teacherOf(9), two: teacherOf(10) };
    const { runner } = setUpStage({
      teachers,
      strategies: [
        named('distillation', distil({ teacher: 'one' })),
        named('distillation-2', distil({ teacher: 'two', temperature: 2 })),
      ],
    });
    expect(runner.layout.terms.map(({ name }) => name)).toEqual(['distillation/kd', 'distillation-2/kd']);
    const { history } = await runStage({
      teachers,
      strategies: runner.input.strategies,
      limitUpdates: 1,
    });
    const first = history[0]!;
    expect(first['train/distillation/kd']).not.toBeCloseTo(first['train/distillation-2/kd']!, 6);
    expect(first['train/total']).toBeCloseTo(first['train/distillation/kd']! + first['train/distillation-2/kd']!, 5);
    const { runner: vague } = setUpStage();
    expect(vague.layout.terms.length).toBe(1);
    expect(() => setUpStage({ teachers, strategies: [named('distillation', distil())] })).toThrowError(
      expect.objectContaining({ code: 'PRECONDITION', hint: expect.stringContaining('teacher') }),
    );
  });
});

describe('a loss that is not finite', () => {
  /** Infinite for batches whose first image begins with one of these bytes over 255. */
  const exploding = (at: (step: number) => boolean): NamedStrategy[] => {
    let call = -1;
    return [
      supervised(),
      named('bomb', {
        terms: ({ student }) => ({ bomb: { loss: tf.mul(tf.sum(student.output, 1), 1), weight: 0 } }),
        weights: () => ({ bomb: at(++call) ? Number.POSITIVE_INFINITY : 0 }),
      }),
    ];
  };

  test('changes nothing but the counters; schedule, EMA and slots stand still', async () => {
    const factors: number[] = [];
    const { saves, history } = await runStage({
      strategies: exploding((step) => step === 2),
      schedule: { factor: (step) => Math.min(1, factors.push(step)) },
      ema: { decay: 0.5, warmup: true, evaluate: true },
      saveEvery: 1,
      epochs: 1,
    });
    const [before, after] = [saves[1]!, saves[2]!];
    const changed = Object.keys(before.tensors).filter(
      (path) => JSON.stringify(valuesOf(before.tensors, path)) !== JSON.stringify(valuesOf(after.tensors, path)),
    );
    expect(changed).toEqual(['counters/batches', 'counters/skipped']);
    expect(valuesOf(after.tensors, 'counters/skipped')).toEqual([1]);
    expect(factors).toEqual([0, 1, 2, 2, 3, 4]);
    expect(history[0]!['train/skipped']).toBe(1);
    expect(Number.isFinite(history[0]!['train/total'])).toBe(true);
  });

  test('at every update of a short stage is an error too, not a result', async () => {
    const { runner, initial } = setUpStage({ strategies: exploding(() => true), limitUpdates: 2 });
    await expect(runner.run()).rejects.toMatchObject({
      code: 'NOT_FINITE',
      message: 'stage "stage": none of its 2 updates was finite',
    });
    disposeModel(initial);
  });

  test('a term without a tensor is an error that names it', () => {
    const terms = () => ({ nothing: { loss: undefined as unknown as tf.Tensor } });
    expect(() => setUpStage({ strategies: [named('mine', { terms })] })).toThrowError(
      expect.objectContaining({
        code: 'TERM_SHAPE',
        message: expect.stringContaining('"mine/nothing"'),
        plugin: 'mine',
      }),
    );
  });

  test('one class is nothing to learn', () => {
    expect(() => setUpStage({ source: stripeSource(8, { classes: 1 }), net: new SmallNet([8, 8, 1], 1) })).toThrowError(
      expect.objectContaining({ code: 'PRECONDITION', message: expect.stringContaining('at least 2 classes') }),
    );
  });

  test('ten times in a row ends the stage; what was saved stays, and no tensor is left behind', async () => {
    const before = engine().tensorCount();
    const { runner, trace, initial } = setUpStage({
      strategies: exploding((step) => step >= 8),
      saveEvery: 2,
      epochs: 9,
    });
    await expect(runner.run()).rejects.toMatchObject({
      code: 'NOT_FINITE',
      message: expect.stringMatching(/stage "stage", epoch 2: total was not finite in 10 updates in a row/),
      hint: expect.stringContaining('clip'),
    });
    disposeModel(initial);
    expect(engine().tensorCount()).toBe(before);
    expect(trace.saves.length).toBeGreaterThan(2);
  });
});

describe('early stopping and evaluation', () => {
  const watching = (values: number[], rule: Partial<NonNullable<StageInput['earlyStop']>> = {}): Overrides => ({
    epochs: 9,
    evaluate: async () => ({ top1: values.shift()! }),
    earlyStop: { monitor: 'dev/top1', mode: 'max', patience: 2, minDelta: 0, ...rule },
  });

  test.each<[string, number[], Partial<NonNullable<StageInput['earlyStop']>>, number]>([
    ['patience counts evaluations without a better value', [0.5, 0.6, 0.6, 0.5, 1], {}, 4],
    ['a gain below minDelta is none', [0.5, 0.55, 0.59, 1], { minDelta: 0.1 }, 3],
    ['less is better in mode min', [0.9, 0.8, 0.85, 0.8, 0.1], { mode: 'min' }, 4],
    ['a value that is not finite is never the best', [Number.NaN, 0.5, 0.6, 0.6, 0.6, 1], {}, 5],
  ])('%s', async (_, values, rule, epochs) => {
    const { history, saves } = await runStage(watching(values, rule));
    expect(history.length).toBe(epochs);
    expect(saves[saves.length - 1]!.reason).toBe('end');
  });

  test('a limit on updates holds beside patience, and the schedule ends there', async () => {
    const totals = new Set<number>();
    const { updates, history } = await runStage({
      ...watching([0.5, 0.4, 0.3, 0.2]),
      limitUpdates: 8,
      schedule: { factor: (_, total) => Math.min(1, totals.add(total).size) },
    });
    expect(updates).toBe(8);
    expect(history.length).toBe(2);
    expect([...totals]).toEqual([8]);
  });

  test.each<[string, Overrides, RegExp]>([
    ['no split', { evaluate: undefined }, /nothing is evaluated/],
    [
      'a term that is none',
      { earlyStop: { monitor: 'train/supervised/cee', mode: 'min', patience: 1, minDelta: 0 } },
      /did you mean "train\/supervised\/ce"/,
    ],
  ])('watching %s is an error before anything trains', async (_, change, message) => {
    const { runner, trace } = setUpStage({ ...watching([]), ...change });
    await expect(runner.run()).rejects.toMatchObject({
      code: 'UNKNOWN_METRIC',
      message: expect.stringMatching(message),
    });
    expect(trace.events).toEqual([]);
  });

  test('evaluation moves nothing', async () => {
    const prints: string[] = [];
    const { tensors } = await runStage({
      evaluate: async (state) => {
        prints.push(fingerprint(state));
        return { top1: 0 };
      },
    });
    const without = await runStage();
    expect(new Set(prints).size).toBe(2);
    expect(
      Object.keys(tensors).every(
        (path) => JSON.stringify(valuesOf(tensors, path)) === JSON.stringify(valuesOf(without.tensors, path)),
      ),
    ).toBe(true);
  });
});

describe('what goes wrong outside leaves the stage clean', () => {
  const boom = () => {
    throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
  };
  test.each<[string, Overrides]>([
    ['a save', { save: async () => boom() }],
    ['an evaluation', { evaluate: async () => boom() }],
    ['a listener', { emit: (event) => (event.type === 'step' ? boom() : undefined) }],
    ['a strategy between epochs', { strategies: [supervised(), named('bad', { advance: boom })] }],
  ])('an error of %s', async (_, change) => {
    const before = engine().tensorCount();
    const { runner, initial } = setUpStage(change);
    await expect(runner.run()).rejects.toThrow('no space left');
    disposeModel(initial);
    expect(engine().tensorCount()).toBe(before);
  });

  test('classes that do not fit the labels', () => {
    expect(() => setUpStage({ net: new SmallNet([8, 8, 1], 5) })).toThrowError(
      expect.objectContaining({ code: 'PRECONDITION', message: expect.stringContaining('[N,3]') }),
    );
  });
});

test('no tensor is left over from 2,000 updates, 20 epochs and 20 saves', async () => {
  const run = (epochs: number) =>
    runStage({
      source: stripeSource(398),
      epochs,
      accumulate: 1,
      logEvery: 1000,
      save: async () => undefined,
      ema: { decay: 0.99, warmup: true, evaluate: true },
      evaluate: async () => ({ top1: 0 }),
      emit: (event) => {
        if (event.type === 'epoch-end') counts.push([engine().tensorCount(), engine().memoryBytes()]);
      },
    });
  const counts: [tensors: number, bytes: number][] = [];
  await run(1);
  const before = engine().tensorCount();
  counts.length = 0;
  const { updates } = await run(20);
  expect(updates).toBe(2000);
  expect(engine().tensorCount()).toBe(before);
  expect(new Set(counts.map(([tensors]) => tensors)).size).toBe(1);
  // The allocator settles in the first epochs; from then on 1,500 updates may not add 64 MiB.
  const growth = counts[19]![1] - counts[4]![1];
  expect(growth / 2 ** 20).toBeLessThan(64);
});
