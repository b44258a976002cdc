import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { PluginHost } from '../../src/plugin-host/host.ts';
import { openTestEngine } from '../../test/engine-setup.ts';
import plugin from './jensen-shannon.ts';

beforeAll(openTestEngine);

const host = new PluginHost();
host.register(plugin, 'jensen-shannon.ts');

const STUDENT = [
  [2, -1, 0.5, 3],
  [0, 0, 0, 0],
  [-60, 60, 0, 1],
];
const TEACHER = [
  [1, 1, -2, 0],
  [4, -4, 2, 1],
  [60, -60, 0, 1],
];

/** The definition, in float64: T²/2 (KL(p ‖ m) + KL(q ‖ m)). */
function reference(student: readonly number[], teacher: readonly number[], temperature: number): number {
  const softmax = (logits: readonly number[]) => {
    const powers = logits.map((logit) => Math.exp((logit - Math.max(...logits)) / temperature));
    const sum = powers.reduce((a, b) => a + b);
    return powers.map((power) => power / sum);
  };
  const p = softmax(student);
  const q = softmax(teacher);
  const kl = (a: readonly number[]) =>
    a.reduce((sum, x, i) => (x === 0 ? sum : sum + x * Math.log(x / ((p[i]! + q[i]!) / 2))), 0);
  return (temperature ** 2 / 2) * (kl(p) + kl(q));
}

function lossOf(student: number[][], teacher: number[][], options: object): number[] {
  const loss = host.instantiate('loss', 'jensen-shannon', options);
  return tf.tidy(() => [...loss.call({ student: tf.tensor2d(student), teacher: tf.tensor2d(teacher) }).dataSync()]);
}

describe('jensen-shannon', () => {
  it.each([0.5, 1, 2, 4])('equals the definition at temperature %d', (temperature) => {
    const found = lossOf(STUDENT, TEACHER, { temperature });
    // float32 sums of four terms of at most T² log 2: a few units in the last place.
    for (const [i, value] of found.entries()) {
      expect(Math.abs(value - reference(STUDENT[i]!, TEACHER[i]!, temperature))).toBeLessThan(2e-6 * temperature ** 2);
    }
  });

  it('is symmetric, zero for equal logits and at most T² log 2', () => {
    const there = lossOf(STUDENT, TEACHER, { temperature: 2 });
    const back = lossOf(TEACHER, STUDENT, { temperature: 2 });
    for (const [i, value] of there.entries()) expect(value).toBeCloseTo(back[i]!, 6);
    for (const value of lossOf(STUDENT, STUDENT, {})) expect(Math.abs(value)).toBeLessThan(1e-6);
    expect(Math.max(...there)).toBeLessThanOrEqual(4 * Math.LN2 + 1e-5);
  });

  it('has the gradient of the definition', () => {
    const loss = host.instantiate('loss', 'jensen-shannon', { temperature: 2 });
    const gradient = tf.tidy(() => [
      ...tf
        .grad((student) => tf.sum(loss.call({ student, teacher: tf.tensor2d(TEACHER) })))(tf.tensor2d(STUDENT))
        .dataSync(),
    ]);
    const h = 1e-5;
    for (const [n, row] of STUDENT.entries()) {
      for (const c of row.keys()) {
        const moved = (by: number) =>
          reference(
            row.map((x, i) => (i === c ? x + by : x)),
            TEACHER[n]!,
            2,
          );
        // Central differences of float64 are good to about h² = 1e-10; the rest is float32.
        expect(Math.abs(gradient[n * 4 + c]! - (moved(h) - moved(-h)) / (2 * h))).toBeLessThan(1e-5);
      }
    }
  });

  it('refuses logits of different classes', () => {
    const loss = host.instantiate('loss', 'jensen-shannon');
    expect(() => loss.check?.({ student: [8, 10], teacher: [8, 5], classes: 10, batchSize: 8 })).toThrowError(
      'expected logits [N,C] of equal C, got [8,10] and [8,5]',
    );
  });
});
