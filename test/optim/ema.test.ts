import { readFileSync } from 'node:fs';
import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { capture } from '../../src/engine/capture.ts';
import { type EmaOptions, type EmaState, emaDecay, initialEma, updateEma } from '../../src/optim/ema.ts';
import { openTestEngine } from '../engine-setup.ts';

interface Case {
  readonly initial: { readonly param: number[]; readonly buffer: number[] };
  readonly steps: readonly {
    readonly param: number[];
    readonly buffer: number[];
    readonly averageParam: number[];
    readonly averageBuffer: number[];
  }[];
}

const FIXTURE = JSON.parse(readFileSync('test/fixtures/optim/ema.json', 'utf8')) as Record<string, Case>;
const OPTIONS: Readonly<Record<string, EmaOptions>> = {
  plain: { decay: 0.9 },
  power: { decay: 0.99, warmup: {} },
  'power-options': { decay: 0.9, warmup: { gamma: 4, power: 0.75 } },
};

type Model = { params: { w: Tensor }; buffers: { m: Tensor } };
const modelOf = (param: readonly number[], buffer: readonly number[]): Model => ({
  params: { w: tf.tensor1d([...param]) },
  buffers: { m: tf.tensor1d([...buffer]) },
});
const disposeAll = (...trees: object[]) => tf.dispose(trees as unknown as tf.TensorContainer);

describe('moving averages', () => {
  beforeAll(openTestEngine);

  // 1e-6 absolute on values near 1: float32 over 30 steps.
  it.each(Object.keys(OPTIONS))('%s equals timm over 30 updates', async (name) => {
    const fixture = FIXTURE[name]!;
    for (const mode of ['eager', 'graph', 'xla'] as const) {
      const tick = capture('ema', (ema: EmaState, model: Model) => updateEma(ema, model, OPTIONS[name]!), {
        mode,
      } as never);
      const first = modelOf(fixture.initial.param, fixture.initial.buffer);
      let ema = initialEma(first);
      disposeAll(first);
      const before = tf.memory().numTensors;
      for (const step of fixture.steps) {
        const model = modelOf(step.param, step.buffer);
        const next = await tick(ema, model);
        disposeAll(ema, model);
        ema = next;
        const [param, buffer] = [await ema.params['w']!.data(), await ema.buffers['m']!.data()];
        step.averageParam.forEach((x, i) => {
          expect(Math.abs(param[i]! - x)).toBeLessThan(1e-6);
          expect(Math.abs(buffer[i]! - step.averageBuffer[i]!)).toBeLessThan(1e-6);
        });
      }
      expect(tf.memory().numTensors).toBe(before);
      expect((await ema.counters['updates']!.data())[0]).toBe(fixture.steps.length);
      disposeAll(ema);
      tick.dispose();
    }
  });

  it('warms up by (1 + n) / (10 + n), up to the decay', async () => {
    for (const n of [0, 1, 5, 89, 90, 1000]) {
      const count = tf.scalar(n);
      const decay = emaDecay(count, { decay: 0.91, warmup: true });
      expect((await decay.data())[0]).toBeCloseTo(Math.min(0.91, (1 + n) / (10 + n)), 6);
      tf.dispose([count, decay]);
    }
  });

  it('keeps the average of a frozen value bit-identical and copies integers', async () => {
    const w = tf.tensor1d([0.1, 1 / 3, -7e-9]);
    const same = tf.tensor1d(await w.data());
    const count = tf.tensor1d([4], 'int32');
    const ema = initialEma({ params: { w }, buffers: { count } });
    const later = tf.tensor1d([5], 'int32');
    const next = updateEma(ema, { params: { w: same }, buffers: { count: later } }, { decay: 0.99, warmup: true });
    expect(await next.params['w']!.data()).toEqual(await w.data());
    expect((await next.buffers['count']!.data())[0]).toBe(5);
    expect(() => updateEma(ema, { params: { w, v: w }, buffers: {} }, { decay: 0.9 })).toThrow(/no average of v/);
    disposeAll(ema, next, [w, same, count, later]);
  });
});
