import { readFileSync } from 'node:fs';
import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { capture, trace } from '../../src/engine/capture.ts';
import { runPasses } from '../../src/engine/program/passes.ts';
import type { Role, Tensors } from '../../src/nn/module.ts';
import { OPTIMIZER_PLUGINS } from '../../src/optim/builtins.ts';
import type { Optimizer } from '../../src/plugin-host/contract.ts';
import { openTestEngine } from '../engine-setup.ts';

interface Case {
  readonly options: Readonly<Record<string, unknown>>;
  readonly rates?: readonly number[];
  readonly momenta?: readonly number[];
  readonly late?: number;
  readonly initial: Readonly<Record<'kernel' | 'bias', number[]>>;
  readonly gradients: readonly Readonly<Record<'kernel' | 'bias', number[]>>[];
  readonly values: Readonly<Record<string, Record<'kernel' | 'bias', number[]>>>;
}

const FIXTURE = JSON.parse(readFileSync('test/fixtures/optim/optimizers.json', 'utf8')) as Record<string, Case>;
const SHAPES = { kernel: [3, 4], bias: [4] } as const;
const NAMES = ['kernel', 'bias'] as const;

function make(name: string, options: Readonly<Record<string, unknown>>): Optimizer {
  const plugin = OPTIMIZER_PLUGINS.find((other) => other.name === name)!;
  return new (plugin.implementation as new (parsed: unknown) => Optimizer)(plugin.options.parse(options));
}

/** One update of one parameter as a recorded function. */
function recordUpdate(optimizer: Optimizer, role: Role, cycles: boolean, mode: 'eager' | 'graph' | 'xla') {
  return capture(
    `update-${role}`,
    (value: Tensor, gradient: Tensor, slots: Tensors, rate: Tensor, momentum: Tensor) =>
      optimizer.update('p', value, gradient, slots, {
        rate,
        ...(cycles ? { momentum } : {}),
        role,
        decay: true,
      }),
    { mode },
  );
}

/** Largest difference to the fixture, relative to the largest value there. */
function differenceTo(expected: readonly number[], actual: ArrayLike<number>): number {
  const scale = Math.max(...expected.map(Math.abs));
  return Math.max(...expected.map((x, i) => Math.abs(x - actual[i]!))) / scale;
}

describe('optimizers', () => {
  beforeAll(openTestEngine);
  let before = 0;
  beforeEach(() => {
    before = tf.memory().numTensors;
  });
  afterEach(() => {
    expect(tf.memory().numTensors).toBe(before);
  });

  // 1e-6: both sides round in float32, in another order, over 50 steps; torch's own two implementations differ by as much.
  describe.each(Object.entries(FIXTURE))('%s', (name, fixture) => {
    it.each(['graph', 'xla', 'eager'] as const)('equals torch over 50 steps, %s', async (mode) => {
      const optimizer = make(name.startsWith('sgd') ? 'sgd' : 'adamw', fixture.options);
      expect(optimizer.baseRate).toBe(fixture.options['rate']);
      const cycles = fixture.momenta !== undefined;
      for (const parameter of NAMES) {
        const step = recordUpdate(optimizer, parameter, cycles, mode);
        let value: Tensor = tf.tensor(fixture.initial[parameter], [...SHAPES[parameter]]);
        let slots = optimizer.init(parameter, value);
        let compared = 0;
        for (const [i, gradients] of fixture.gradients.entries()) {
          if (fixture.late === undefined || parameter === 'bias' || i >= fixture.late) {
            const gradient = tf.tensor(gradients[parameter], [...SHAPES[parameter]]);
            const rate = tf.scalar(fixture.rates?.[i] ?? optimizer.baseRate);
            const momentum = tf.scalar(fixture.momenta?.[i] ?? 0);
            const next = await step(value, gradient, slots, rate, momentum);
            tf.dispose([value, slots, gradient, rate, momentum]);
            value = next.value;
            slots = next.slots;
          }
          const expected = fixture.values[i]?.[parameter];
          if (expected === undefined) continue;
          expect(differenceTo(expected, await value.data())).toBeLessThan(1e-6);
          compared++;
        }
        expect(compared).toBe(6);
        if (name.startsWith('adamw')) {
          const updates = fixture.late === undefined || parameter === 'bias' ? 50 : 50 - fixture.late;
          expect((await slots['step']!.data())[0]).toBe(updates);
        }
        tf.dispose([value, slots]);
        step.dispose();
      }
    });
  });

  it('gives a parameter that is unfrozen late a first step of the size of its rate', async () => {
    const optimizer = make('adamw', { rate: 0.01, decay: 0 });
    const value = tf.tensor1d([1, -2]);
    const gradient = tf.tensor1d([1e-3, -50]);
    const slots = optimizer.init('late', value);
    const rate = tf.scalar(0.01);
    const next = optimizer.update('late', value, gradient, slots, { rate, role: 'kernel', decay: true });
    const moved = await next.value.data();
    expect(moved[0]).toBeCloseTo(1 - 0.01, 5);
    expect(moved[1]).toBeCloseTo(-2 + 0.01, 5);
    tf.dispose([value, gradient, slots, rate, next as unknown as tf.TensorContainer]);
  });

  it('has corrections as exact as float32 allows after any number of steps', async () => {
    const optimizer = make('adamw', { rate: 1, decay: 0, epsilon: 1e-12 });
    // With a constant gradient the corrected moments are the gradient and its square: the step is the rate.
    const value = tf.tensor1d([0]);
    const gradient = tf.tensor1d([0.7]);
    const rate = tf.scalar(1);
    let slots = optimizer.init('p', value);
    for (let i = 0; i < 200; i++) {
      const next = optimizer.update('p', value, gradient, slots, { rate, role: 'bias', decay: true });
      expect(Math.abs((await next.value.data())[0]! + 1)).toBeLessThan(3e-6);
      tf.dispose([slots, next.value]);
      slots = next.slots;
    }
    tf.dispose([value, gradient, rate, slots]);
  });

  it.each(['sgd', 'adamw'])('%s decays by role, and only where the group does', async (name) => {
    const roles: readonly Role[] = [
      'kernel',
      'depthwise-kernel',
      'bias',
      'norm',
      'embedding',
      'token',
      'position',
      'scale',
    ];
    const optimizer = make(name, { rate: 0.1, decay: 0.5 });
    const chosen = make(name, { rate: 0.1, decay: 0.5, decayRoles: ['norm'] });
    for (const role of roles) {
      const decays = ['kernel', 'depthwise-kernel', 'embedding'].includes(role);
      expect(optimizer.decayOf(role, true)).toBe(decays ? 0.5 : 0);
      expect(optimizer.decayOf(role, false)).toBe(0);
      expect(chosen.decayOf(role, true)).toBe(role === 'norm' ? 0.5 : 0);
      for (const decay of [true, false]) {
        const value = tf.tensor1d([2]);
        const gradient = tf.tensor1d([0]);
        const rate = tf.scalar(0.1);
        const slots = optimizer.init('p', value);
        const next = optimizer.update('p', value, gradient, slots, { rate, role, decay });
        expect((await next.value.data())[0]).toBeCloseTo(decays && decay ? 2 - 0.1 * 0.5 * 2 : 2, 6);
        tf.dispose([value, gradient, rate, slots, next as unknown as tf.TensorContainer]);
      }
    }
  });

  it('costs few ops for each parameter, which is the hot path', () => {
    tf.engine().startScope();
    const counts = (options: Readonly<Record<string, unknown>>, name = 'sgd') => {
      const optimizer = make(name, options);
      const shape = [3, 4];
      const slots = optimizer.init('p', tf.zeros(shape));
      const { program } = trace(
        'update',
        [{ shape }, { shape }, { shape: [] }, ...Object.values(slots).map((slot) => ({ shape: slot.shape }))],
        (value, gradient, rate, ...values) =>
          optimizer.update(
            'p',
            value!,
            gradient!,
            Object.fromEntries(Object.keys(slots).map((key, i) => [key, values[i]!])),
            { rate: rate!, role: 'kernel', decay: true },
          ),
      );
      return runPasses(program).ops.filter(({ type }) => type !== 'Input' && type !== 'Const').length;
    };
    expect(counts({ rate: 0.1, momentum: 0 })).toBe(2);
    expect(counts({ rate: 0.1, momentum: 0.9 })).toBe(4);
    expect(counts({ rate: 0.1, momentum: 0.9, decay: 1e-4 })).toBe(5);
    expect(counts({ rate: 0.1, momentum: 0.9, decay: 1e-4, nesterov: true })).toBe(7);
    // 13 over the parameter, 12 on scalars (2 of them shared by the parameters of a group).
    expect(counts({ rate: 0.1 }, 'adamw')).toBe(25);
    tf.engine().endScope();
  });

  it('refuses a moving momentum where sgd has none, and options that do not fit', () => {
    const optimizer = make('sgd', { rate: 0.1, momentum: 0 });
    const value = tf.tensor1d([2]);
    const context = { rate: tf.scalar(1), momentum: tf.scalar(0.9), role: 'kernel', decay: true } as const;
    expect(() => optimizer.update('layer1.weight', value, value, {}, context)).toThrow(/layer1\.weight/);
    tf.dispose([value, context.rate, context.momentum]);
    expect(() => make('sgd', { rate: 0.1, momentum: 0, nesterov: true })).toThrow(/nesterov needs a momentum/);
    expect(() => make('sgd', {})).toThrow(/rate/);
    expect(() => make('sgd', { rate: 0.1, dampening: 1 })).toThrow(/dampening/);
  });
});
