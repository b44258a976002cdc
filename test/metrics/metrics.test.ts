import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AlambicError } from '../../src/errors.ts';
import { Accuracy, rankOf } from '../../src/metrics/accuracy.ts';
import { METRIC_PLUGINS } from '../../src/metrics/builtins.ts';
import { Calibration } from '../../src/metrics/calibration.ts';
import { wilsonInterval } from '../../src/metrics/confidence-interval.ts';
import { confusionMatrix } from '../../src/metrics/confusion-matrix.ts';
import { MeanLoss } from '../../src/metrics/mean-loss.ts';
import { PerClass, scoreClasses } from '../../src/metrics/per-class.ts';
import type { MetricBatch } from '../../src/metrics/samples.ts';
import type { Metric } from '../../src/plugin-host/contract.ts';

interface Case {
  readonly name: string;
  readonly classes: number;
  readonly logits: number[];
  readonly labels: number[];
  readonly top1?: number;
  readonly top3?: number;
  readonly accuracy: number;
  readonly confusion: number[][];
  readonly precision: number[];
  readonly recall: number[];
  readonly f1: number[];
  readonly macroF1: number;
  readonly macroRecall: number;
  readonly nll: number;
  readonly brier: number;
  readonly ece: number;
}

const CASES = JSON.parse(readFileSync('test/fixtures/metrics/classification.json', 'utf8')) as Case[];
const INTERVALS = JSON.parse(readFileSync('test/fixtures/metrics/intervals.json', 'utf8')) as [
  number,
  number,
  number,
  number,
][];

const batchOf = (logits: readonly number[], labels: readonly number[], classes: number): MetricBatch => ({
  logits: Float32Array.from(logits),
  labels: Int32Array.from(labels),
  classes,
  losses: Float32Array.from(labels, (_, i) => (i % 7) / 4),
});
const measure = (metric: Metric, ...batches: MetricBatch[]) => {
  for (const batch of batches) metric.update(batch);
  return metric.result();
};
const make = (name: string, options: object = {}): Metric => {
  const plugin = METRIC_PLUGINS.find((other) => other.name === name)!;
  return new (plugin.implementation as new (parsed: unknown) => Metric)(plugin.options.parse(options));
};
/** Cuts a batch at the given item numbers. */
const cut = (batch: MetricBatch, at: readonly number[]): MetricBatch[] => {
  const edges = [0, ...[...at].sort((a, b) => a - b), batch.labels.length];
  return edges.slice(1).map((end, i) => ({
    classes: batch.classes,
    logits: batch.logits.slice(edges[i]! * batch.classes, end * batch.classes),
    labels: batch.labels.slice(edges[i]!, end),
    losses: batch.losses.slice(edges[i]!, end),
  }));
};

describe('metrics', () => {
  // 1e-12: both sides compute in float64 from the same float32 logits.
  it.each(CASES.map((c) => [c.name, c] as const))('%s: equal scikit-learn', (_, c) => {
    const batch = batchOf(c.logits, c.labels, c.classes);
    const accuracy = measure(make('accuracy', { k: [1, 3] }), batch);
    expect(accuracy['top1']).toBeCloseTo(c.accuracy, 12);
    if (c.top3 !== undefined) {
      expect(accuracy['top1']).toBeCloseTo(c.top1!, 12);
      expect(accuracy['top3']).toBeCloseTo(c.top3, 12);
    }
    expect(confusionMatrix(batch)).toEqual(c.confusion);
    const perClass = measure(new PerClass(), batch);
    for (const key of ['precision', 'recall', 'f1'] as const) {
      c[key].forEach((x, i) => {
        expect(perClass[`${key}.${i}`]).toBeCloseTo(x, 12);
      });
    }
    expect(perClass['macroF1']).toBeCloseTo(c.macroF1, 12);
    expect(perClass['macroRecall']).toBeCloseTo(c.macroRecall, 12);
    const calibration = measure(new Calibration(), batch);
    for (const key of ['nll', 'brier', 'ece'] as const)
      expect(Math.abs(calibration[key]! - c[key])).toBeLessThan(1e-12);
  });

  it('do not depend on how the samples are batched, whatever the label of the rest', () => {
    const [c] = CASES as [Case];
    const labels = c.labels.map((label, i) => (i % 5 === 0 ? -1 : label));
    const whole = batchOf(c.logits, labels, c.classes);
    fc.assert(
      fc.property(fc.array(fc.nat(labels.length), { maxLength: 12 }), (at) => {
        for (const { name } of METRIC_PLUGINS) {
          const [one, many] = [measure(make(name), whole), measure(make(name), ...cut(whole, at))];
          expect(Object.keys(many)).toEqual(Object.keys(one));
          for (const [key, value] of Object.entries(one)) expect(many[key]).toBeCloseTo(value, 12);
        }
      }),
      { numRuns: 30 },
    );
    // Items without label do not count at all.
    const kept = labels.flatMap((label, i) => (label < 0 ? [] : [i]));
    const only = {
      classes: c.classes,
      logits: Float32Array.from(kept.flatMap((i) => c.logits.slice(i * c.classes, (i + 1) * c.classes))),
      labels: Int32Array.from(kept, (i) => labels[i]!),
      losses: Float32Array.from(kept, (i) => whole.losses[i]!),
    };
    for (const { name } of METRIC_PLUGINS) expect(measure(make(name), whole)).toEqual(measure(make(name), only));
  });

  it('accuracy breaks ties by the lower class and takes any k', () => {
    const tied = batchOf([1, 1, 1, 0], [1], 4);
    expect(rankOf(1, tied.logits, 0, 4)).toBe(1);
    expect(measure(make('accuracy', { k: [1, 2, 4, 5] }), tied)).toEqual({ top1: 0, top2: 1, top4: 1, top5: 1 });
    expect(measure(new Accuracy(), batchOf([0, 0, 0, 0], [0, 1], 2))).toEqual({ top1: 0.5, top5: 1 });
    expect(confusionMatrix(batchOf([0, 0, 0, 0], [0, 1], 2))).toEqual([
      [1, 0],
      [1, 0],
    ]);
  });

  it('top k equals a sort, and never falls with k', () => {
    const rows = fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 6, maxLength: 6 });
    fc.assert(
      fc.property(fc.array(fc.tuple(rows, fc.nat(5)), { minLength: 1, maxLength: 20 }), (items) => {
        const batch = batchOf(
          items.flatMap(([row]) => row),
          items.map(([, label]) => label),
          6,
        );
        const result = measure(make('accuracy', { k: [1, 2, 3, 4, 5, 6] }), batch);
        let last = 0;
        for (let k = 1; k <= 6; k++) {
          const hits = items.filter(([row, label]) => {
            const order = [0, 1, 2, 3, 4, 5].sort((a, b) => row[b]! - row[a]! || a - b);
            return order.slice(0, k).includes(label);
          }).length;
          expect(result[`top${k}`]).toBe(hits / items.length);
          expect(result[`top${k}`]).toBeGreaterThanOrEqual(last);
          last = result[`top${k}`]!;
        }
        expect(last).toBe(1);
      }),
    );
  });

  it('the mean loss counts samples, not batches', () => {
    const metric = new MeanLoss();
    metric.update({ ...batchOf([0, 0, 0, 0, 0, 0], [0, 1, -1], 2), losses: Float32Array.of(1, 2, 0) });
    metric.update({ ...batchOf([0, 0], [1], 2), losses: Float32Array.of(6) });
    expect(metric.result()).toEqual({ loss: 3 });
  });

  it('gives NaN where nothing has a label, and does not hide it as 0', () => {
    for (const { name } of METRIC_PLUGINS.filter((plugin) => plugin.name !== 'per-class')) {
      for (const value of Object.values(measure(make(name), batchOf([0, 1], [-1], 2)))) expect(value).toBeNaN();
    }
    expect(measure(make('per-class'), batchOf([0, 1], [-1], 2))['macroRecall']).toBeNaN();
  });

  it.each(METRIC_PLUGINS.map(({ name }) => name))('%s names the sample that is not finite', (name) => {
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
      const metric = make(name);
      metric.update(batchOf([0, 1, 2, 3], [0, 1], 2));
      const caught = catchError(() => metric.update(batchOf([0, 1, 2, bad], [0, -1], 2)));
      expect(caught.code).toBe('METRIC_NOT_FINITE');
      expect(caught.message).toContain('sample 3');
      expect(caught.message).toContain('class 1');
      expect(caught.hint).toBeTruthy();
    }
  });

  it('names a loss that is not finite, a label out of range and logits of another shape', () => {
    const broken = { ...batchOf([0, 1], [0], 2), losses: Float32Array.of(Number.NaN) };
    expect(catchError(() => new MeanLoss().update(broken)).code).toBe('METRIC_NOT_FINITE');
    expect(catchError(() => new Accuracy().update(batchOf([0, 1], [2], 2))).message).toContain(
      'label 2, expected 0..1',
    );
    expect(catchError(() => new Accuracy().update(batchOf([0, 1, 2], [0], 2))).code).toBe('METRIC_SHAPE');
  });

  it('reports the bins of the reliability diagram', () => {
    const metric = new Calibration({ bins: 2 });
    // Confidences 0.75 (right) and 0.75 (wrong); a tie of 0.5 belongs to the lower bin.
    const sure = Math.log(3);
    metric.update(batchOf([sure, 0, sure, 0, 0, 0], [0, 1, 0], 2));
    const [low, high] = metric.bins();
    expect(low).toEqual({ items: 1, confidence: 0.5, accuracy: 1 });
    expect(high!.items).toBe(2);
    expect(high!.confidence).toBeCloseTo(0.75, 6);
    expect(high!.accuracy).toBe(0.5);
    expect(metric.result()['ece']).toBeCloseTo((1 * 0.5 + 2 * 0.25) / 3, 6);
  });

  it('scores a class without items or predictions 0', () => {
    expect(
      scoreClasses([
        [2, 0],
        [0, 0],
      ])[1],
    ).toEqual({ items: 0, recall: 0, precision: 0, f1: 0 });
    expect(Object.keys(measure(make('per-class', { classes: false }), batchOf([0, 1], [1], 2)))).toEqual([
      'macroRecall',
      'macroPrecision',
      'macroF1',
    ]);
  });

  it('describe themselves and their options', () => {
    for (const { description, options } of METRIC_PLUGINS) {
      expect(description).toMatch(/\.$/);
      for (const option of Object.values(options.shape))
        expect((option as { description?: string }).description).toBeTruthy();
    }
  });
});

describe('wilsonInterval', () => {
  it.each(INTERVALS)('%d of %d: equals the roots of its equation', (hits, count, low, high) => {
    const interval = wilsonInterval(hits, count);
    expect(interval.low).toBeCloseTo(low, 9);
    expect(interval.high).toBeCloseTo(high, 9);
  });

  it('lies in 0..1, contains the share and narrows with the count', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5000 }), fc.double({ min: 0, max: 1, noNaN: true }), (count, share) => {
        const hits = Math.round(share * count);
        const { low, high } = wilsonInterval(hits, count);
        expect(low).toBeGreaterThanOrEqual(0);
        expect(high).toBeLessThanOrEqual(1);
        expect(low).toBeLessThanOrEqual(hits / count);
        expect(high).toBeGreaterThanOrEqual(hits / count);
        const more = wilsonInterval(hits * 4, count * 4);
        expect(more.high - more.low).toBeLessThan(high - low);
      }),
    );
    expect(wilsonInterval(0, 0)).toEqual({ low: 0, high: 1 });
    expect(() => wilsonInterval(3, 2)).toThrow(/3 of 2/);
  });
});

function catchError(run: () => void): AlambicError {
  try {
    run();
  } catch (error) {
    if (error instanceof AlambicError) return error;
    throw error;
  }
  throw new Error('expected an error, none was thrown');
}
