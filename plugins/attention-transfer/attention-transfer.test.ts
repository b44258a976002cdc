import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import type { BuildView, ForwardView, StepView } from '../../src/plugin-host/contract.ts';
import { PluginHost } from '../../src/plugin-host/host.ts';
import { openTestEngine } from '../../test/engine-setup.ts';
import plugin from './attention-transfer.ts';

beforeAll(openTestEngine);

const host = new PluginHost();
host.register(plugin, 'attention-transfer.ts');
const strategy = (options: object) => host.instantiate('strategy', 'attention-transfer', options);

/** Deterministic values in -1..1. */
const values = (count: number, seed: number) => Array.from({ length: count }, (_, i) => Math.sin(seed + i * 1.7));

const forward = (taps: Record<string, tf.Tensor>): ForwardView => ({
  output: tf.zeros([2, 3]),
  tap: (name) => taps[name]!,
  taps: () => Object.entries(taps),
});

function stepView(student: Record<string, tf.Tensor>, teacher: Record<string, tf.Tensor>): StepView {
  return { student: forward(student), teachers: { big: forward(teacher) } } as unknown as StepView;
}

/** Mean squared difference of one item's normalised maps, in float64; data [H*W][C]. */
function reference(teacher: number[][], student: number[][], power: number): number {
  const map = (pixels: number[][]) => {
    const sums = pixels.map((channels) => channels.reduce((sum, x) => sum + Math.abs(x) ** power, 0));
    const norm = Math.hypot(...sums);
    return sums.map((x) => x / norm);
  };
  const a = map(teacher);
  const b = map(student);
  return a.reduce((sum, x, i) => sum + (x - b[i]!) ** 2, 0) / a.length;
}

const pixels = (flat: number[], item: number, area: number, channels: number) =>
  Array.from({ length: area }, (_, p) => flat.slice((item * area + p) * channels, (item * area + p + 1) * channels));

describe('attention-transfer', () => {
  it.each([1, 2, 3])('equals the definition with power %d, summed over the pairs', (power) => {
    const flat = { a: values(2 * 9 * 4, 1), b: values(2 * 9 * 2, 5), c: values(2 * 4 * 6, 2), d: values(2 * 4 * 3, 7) };
    const found = tf.tidy(() => {
      const view = stepView(
        { low: tf.tensor4d(flat.b, [2, 3, 3, 2]), high: tf.tensor4d(flat.d, [2, 2, 2, 3]) },
        { low: tf.tensor4d(flat.a, [2, 3, 3, 4]), high: tf.tensor4d(flat.c, [2, 2, 2, 6]) },
      );
      const pairs = [
        ['low', 'low'],
        ['high', 'high'],
      ];
      const { at } = strategy({ pairs, power, weight: 7 }).terms!(view);
      expect(at!.weight).toBe(7);
      return [...at!.loss.dataSync()];
    });
    for (const [item, value] of found.entries()) {
      const expected =
        reference(pixels(flat.a, item, 9, 4), pixels(flat.b, item, 9, 2), power) +
        reference(pixels(flat.c, item, 4, 6), pixels(flat.d, item, 4, 3), power);
      // Maps are of unit norm, so the loss is below 1: float32 rounding of a few sums.
      expect(Math.abs(value - expected)).toBeLessThan(1e-6);
    }
  });

  it('does not change when the student is scaled, and has a finite gradient where all units are dead', () => {
    const gradient = tf.tidy(() => {
      const teacher = tf.tensor4d(values(18, 1), [1, 3, 3, 2]);
      const at = strategy({ pairs: [['x', 'x']] });
      const loss = (x: tf.Tensor) => tf.sum(at.terms!(stepView({ x }, { x: teacher }))['at']!.loss);
      const scaled = loss(tf.mul(teacher, 5)).dataSync()[0]!;
      expect(Math.abs(scaled)).toBeLessThan(1e-12);
      return [
        ...tf
          .grad(loss)(tf.zeros([1, 3, 3, 2]))
          .dataSync(),
      ];
    });
    expect(gradient.every((value) => value === 0)).toBe(true);
  });

  it('checks the taps before the first step', () => {
    const build = (h: number) =>
      ({
        student: { taps: [{ name: 'layer1', shape: [1, h, 8, 4] }] },
        teachers: { big: { taps: [{ name: 'layer1', shape: [1, 8, 8, 16] }] } },
      }) as unknown as BuildView;
    expect(strategy({ pairs: [['layer1', 'layer1']] }).check?.(build(8))).toBeUndefined();
    expect(() => strategy({ pairs: [['layer1', 'layer1']] }).check?.(build(4))).toThrowError(
      'expected taps [N,H,W,C] of equal H and W, got layer1 [1,8,8,16] and layer1 [1,4,8,4]',
    );
    expect(() => strategy({ pairs: [['layer1', 'layr1']] }).check?.(build(8))).toThrowError(
      'unknown tap "layr1": did you mean "layer1"?',
    );
    expect(() => strategy({ pairs: [['layer1', 'layer1']] }).check?.({ ...build(8), teachers: {} })).toThrowError(
      'attention-transfer needs one teacher, got none',
    );
  });
});
