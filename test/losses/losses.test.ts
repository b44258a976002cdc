import { readFileSync } from 'node:fs';
import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import fc from 'fast-check';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { capture } from '../../src/engine/capture.ts';
import { valueAndGradients } from '../../src/engine/kernels/index.ts';
import { attentionTransfer } from '../../src/losses/attention-map.ts';
import { LOSS_PLUGINS } from '../../src/losses/builtins.ts';
import { crossEntropy } from '../../src/losses/cross-entropy.ts';
import { kullbackLeibler } from '../../src/losses/kullback-leibler.ts';
import { meanSquaredError } from '../../src/losses/mean-squared-error.ts';
import type { Loss } from '../../src/plugin-host/contract.ts';
import { openTestEngine } from '../engine-setup.ts';

interface Case {
  readonly name: string;
  readonly shape: number[];
  readonly student: number[];
  readonly losses: number[];
  readonly gradient: number[];
}
const load = <T>(name: string) => JSON.parse(readFileSync(`test/fixtures/losses/${name}.json`, 'utf8')) as T[];

type KdCase = Case & { teacher: number[]; temperature: number; torchdistill: number };
type MseCase = Case & { teacher: number[]; mean: number };
type CeCase = Case & { labels: number[]; labelSmoothing: number };
type AtCase = Case & { teacher: number[]; studentShape: number[]; teacherShape: number[]; power: number };
const KD = load<KdCase>('kullback-leibler');
const MSE = load<MseCase>('mean-squared-error');
const CE = load<CeCase>('cross-entropy');
const AT = load<AtCase>('attention-map');

const MODES = ['eager', 'graph', 'xla'] as const;

/** Per-item losses and the gradient of their sum, as every strategy gets them; the other inputs are arguments as in a step. */
async function evaluate(
  loss: (student: Tensor, other: Tensor) => Tensor,
  student: Tensor,
  other: Tensor,
  mode: (typeof MODES)[number],
) {
  const run = capture(
    'loss',
    (x: Tensor, y: Tensor) => {
      const { gradients, aux } = valueAndGradients(
        () => {
          const values = loss(x, y);
          return { loss: tf.sum(values), aux: { values } };
        },
        { x },
      );
      return { values: aux.values, gradient: gradients['x']! };
    },
    { mode },
  );
  const result = await run(student, other);
  const out = {
    values: (await result.values.data()) as Float32Array,
    gradient: (await result.gradient.data()) as Float32Array,
    shape: result.values.shape,
  };
  tf.dispose([result.values, result.gradient]);
  run.dispose();
  return out;
}

function close(actual: ArrayLike<number>, expected: readonly number[], relative: number, absolute: number): void {
  expect(actual.length).toBe(expected.length);
  const scale = Math.max(...expected.map(Math.abs));
  for (const [i, x] of expected.entries()) {
    expect(Number.isFinite(actual[i])).toBe(true);
    expect(Math.abs(actual[i]! - x)).toBeLessThanOrEqual(relative * scale + absolute);
  }
}

/** T² KL(teacher ‖ student) in float64, from the definition of softmax. */
function divergence(student: readonly number[], teacher: readonly number[], temperature: number): number {
  const logSoftmax = (z: readonly number[]) => {
    const scaled = z.map((x) => x / temperature);
    const largest = Math.max(...scaled);
    const total = largest + Math.log(scaled.reduce((sum, x) => sum + Math.exp(x - largest), 0));
    return scaled.map((x) => x - total);
  };
  const [s, t] = [logSoftmax(student), logSoftmax(teacher)];
  return temperature ** 2 * t.reduce((sum, x, i) => sum + Math.exp(x) * (x - s[i]!), 0);
}

describe('losses', () => {
  beforeAll(openTestEngine);
  let before = 0;
  beforeEach(() => {
    before = tf.memory().numTensors;
  });
  afterEach(() => {
    expect(tf.memory().numTensors).toBe(before);
  });

  describe.each(MODES)('%s', (mode) => {
    // Float32 log-probabilities are exact to 1e-7 of the largest softened logit, and T² (up to 400) multiplies that.
    it.each(KD.map((c) => [c.name, c] as const))('kullbackLeibler, %s, equals torch', async (_, c) => {
      const [student, teacher] = [tf.tensor(c.student, c.shape), tf.tensor(c.teacher, c.shape)];
      const { temperature } = c;
      const result = await evaluate((x, y) => kullbackLeibler(x, y, { temperature }), student, teacher, mode);
      expect(result.shape).toEqual([c.shape[0]]);
      close(result.values, c.losses, 2e-6, 4e-7 * temperature ** 2);
      close(result.gradient, c.gradient, 2e-6, 4e-7 * temperature);
      const mean = result.values.reduce((sum, x) => sum + x, 0) / c.shape[0]!;
      expect(Math.abs(mean - c.torchdistill)).toBeLessThanOrEqual(2e-6 * c.torchdistill + 4e-7 * temperature ** 2);
      tf.dispose([student, teacher]);
    });

    it.each(MSE.map((c) => [c.name, c] as const))('meanSquaredError, %s, equals torch', async (_, c) => {
      const [student, teacher] = [tf.tensor(c.student, c.shape), tf.tensor(c.teacher, c.shape)];
      const result = await evaluate(meanSquaredError, student, teacher, mode);
      close(result.values, c.losses, 1e-6, 0);
      close(result.gradient, c.gradient, 1e-6, 0);
      tf.dispose([student, teacher]);
    });

    it.each(CE.map((c) => [c.name, c] as const))('crossEntropy, %s, equals torch', async (_, c) => {
      const [student, labels] = [tf.tensor(c.student, c.shape), tf.tensor1d(c.labels, 'int32')];
      const { labelSmoothing } = c;
      const result = await evaluate((x, y) => crossEntropy(x, y, { labelSmoothing }), student, labels, mode);
      close(result.values, c.losses, 1e-6, 3e-7);
      close(result.gradient, c.gradient, 1e-6, 3e-7);
      c.labels.forEach((label, i) => {
        if (label >= 0) return;
        expect(result.values[i]).toBe(0);
        const row = result.gradient.subarray(i * c.shape[1]!, (i + 1) * c.shape[1]!);
        expect(row.every((x) => x === 0)).toBe(true);
      });
      tf.dispose([student, labels]);
    });

    // Differences of unit vectors lose digits: 1e-5 of the largest value.
    it.each(AT.map((c) => [c.name, c] as const))('attentionTransfer, %s, equals RepDistiller', async (_, c) => {
      const [student, teacher] = [tf.tensor(c.student, c.studentShape), tf.tensor(c.teacher, c.teacherShape)];
      const { power } = c;
      const result = await evaluate((x, y) => attentionTransfer(x, y, { power }), student, teacher, mode);
      expect(result.shape).toEqual([c.studentShape[0]]);
      close(result.values, c.losses, 1e-5, 1e-8);
      close(result.gradient, c.gradient, 1e-5, 1e-8);
      tf.dispose([student, teacher]);
    });
  });

  it('kullbackLeibler equals its definition in float64, is never negative, and moves the student towards the teacher', async () => {
    const logit = fc.float({ min: -30, max: 30, noNaN: true });
    const pair = fc
      .integer({ min: 2, max: 8 })
      .chain((classes) =>
        fc.tuple(
          fc.array(logit, { minLength: classes, maxLength: classes }),
          fc.array(logit, { minLength: classes, maxLength: classes }),
        ),
      );
    await fc.assert(
      fc.asyncProperty(pair, fc.constantFrom(1, 2, 4, 10), async ([s, t], temperature) => {
        const [student, teacher] = [tf.tensor2d([s]), tf.tensor2d([t])];
        const { values, gradient } = await evaluate(
          (x, y) => kullbackLeibler(x, y, { temperature }),
          student,
          teacher,
          'eager',
        );
        const tolerance = 4e-6 * temperature ** 2 * Math.max(1, (30 / temperature) * 2);
        expect(Math.abs(values[0]! - divergence(s, t, temperature))).toBeLessThanOrEqual(tolerance);
        expect(values[0]).toBeGreaterThanOrEqual(-tolerance);
        // Softmax does not see a constant, so the gradient has none.
        expect(Math.abs(gradient.reduce((sum, x) => sum + x, 0))).toBeLessThan(2e-5 * temperature);
        const norm = Math.hypot(...gradient);
        if (norm > 1e-3) {
          const moved = s.map((x, i) => x - (1e-4 * gradient[i]!) / norm);
          expect(divergence(moved, t, temperature)).toBeLessThan(divergence(s, t, temperature));
        }
        tf.dispose([student, teacher]);
      }),
      { numRuns: 100 },
    );
  });

  it('gives the gradients that central differences of the float64 definition give', async () => {
    const [s, t] = [
      [0.3, -1.2, 2.5, 0.1],
      [1.5, 0.2, -0.7, 0.4],
    ];
    const [student, teacher] = [tf.tensor2d([s]), tf.tensor2d([t])];
    const { gradient } = await evaluate((x, y) => kullbackLeibler(x, y, { temperature: 3 }), student, teacher, 'graph');
    s.forEach((_, i) => {
      const at = (h: number) => divergence(s.with(i, s[i]! + h), t, 3);
      expect(Math.abs(gradient[i]! - (at(1e-5) - at(-1e-5)) / 2e-5)).toBeLessThan(1e-6);
    });
    tf.dispose([student, teacher]);
  });

  it('lets no gradient into the teacher', () => {
    const [a, b] = [tf.tensor2d([[1, 2]]), tf.tensor2d([[2, 1]])];
    for (const loss of [kullbackLeibler, meanSquaredError]) {
      const { gradients, loss: value } = valueAndGradients(() => ({ loss: tf.sum(loss(a, b)), aux: {} }), { a, b });
      expect(Object.keys(gradients)).toEqual(['a']);
      tf.dispose([gradients, value]);
    }
    const [f, g] = [tf.ones([1, 2, 2, 1]), tf.ones([1, 2, 2, 3])];
    const { gradients, loss: value } = valueAndGradients(
      () => ({ loss: tf.sum(attentionTransfer(f as Tensor, g as Tensor)), aux: {} }),
      { f, g },
    );
    expect(Object.keys(gradients)).toEqual(['f']);
    tf.dispose([a, b, f, g, gradients, value]);
  });

  describe('plugins', () => {
    const make = (name: string, options: object = {}): Loss => {
      const plugin = LOSS_PLUGINS.find((other) => other.name === name)!;
      return new (plugin.implementation as new (parsed: unknown) => Loss)(plugin.options.parse(options));
    };

    it('give what their functions give, with their options', async () => {
      const [student, teacher] = [tf.tensor2d([[1, 2, 0]]), tf.tensor2d([[2, 1, 1]])];
      const labels = tf.tensor1d([2], 'int32');
      const [f, g] = [tf.ones<tf.Rank.R4>([1, 2, 2, 3]), tf.tensor4d([1, 2, 3, 4], [1, 2, 2, 1])];
      const pairs: [Tensor, Tensor][] = [
        [
          make('kullback-leibler', { temperature: 2 }).call({ student, teacher }),
          kullbackLeibler(student, teacher, { temperature: 2 }),
        ],
        [make('kullback-leibler').call({ student, teacher }), kullbackLeibler(student, teacher, { temperature: 4 })],
        [make('mean-squared-error').call({ student, teacher }), meanSquaredError(student, teacher)],
        [
          make('cross-entropy', { labelSmoothing: 0.2 }).call({ student, labels }),
          crossEntropy(student, labels, { labelSmoothing: 0.2 }),
        ],
        [make('attention-map', { power: 3 }).call({ student: f, teacher: g }), attentionTransfer(f, g, { power: 3 })],
      ];
      for (const [own, direct] of pairs) {
        expect(own.shape).toEqual([1]);
        expect(await own.data()).toEqual(await direct.data());
      }
      tf.dispose([student, teacher, labels, f, g, pairs]);
    });

    it('state their preconditions before the first step', () => {
      const at = { classes: 10, batchSize: 4 };
      const check = (name: string, student: number[], teacher?: number[]) => () =>
        make(name).check!({ student, ...(teacher === undefined ? {} : { teacher }), ...at });
      expect(check('kullback-leibler', [4, 10], [4, 10])).not.toThrow();
      expect(check('kullback-leibler', [4, 10], [4, 8])).toThrow(/\[4,10\].*\[4,8\]/);
      expect(check('kullback-leibler', [4, 10])).toThrow(/none/);
      expect(check('kullback-leibler', [4, 2, 10], [4, 2, 10])).toThrow(/\[N,C\]/);
      expect(check('mean-squared-error', [4, 2, 2, 8], [4, 2, 2, 8])).not.toThrow();
      expect(check('mean-squared-error', [4, 10], [4])).toThrow(/equal shapes/);
      expect(check('cross-entropy', [4, 10])).not.toThrow();
      expect(check('cross-entropy', [4, 9])).toThrow(/\[N,10\]/);
      expect(check('attention-map', [4, 8, 8, 3], [4, 4, 4, 9])).not.toThrow();
      expect(check('attention-map', [4, 10], [4, 10])).toThrow(/\[N,H,W,C\]/);
      const x = tf.zeros([4, 10]);
      expect(() => make('kullback-leibler').call({ student: x })).toThrow(/teacher/);
      expect(() => make('cross-entropy').call({ student: x })).toThrow(/labels/);
      x.dispose();
      expect(() => make('kullback-leibler', { temperature: 0 })).toThrow(/temperature/);
      expect(() => make('cross-entropy', { smoothing: 0.1 })).toThrow(/smoothing/);
    });

    it('describe themselves and their options', () => {
      for (const { description, options } of LOSS_PLUGINS) {
        expect(description).toMatch(/\.$/);
        for (const option of Object.values(options.shape))
          expect((option as { description?: string }).description).toBeTruthy();
      }
    });
  });
});
