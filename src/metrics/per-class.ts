import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Metric } from '../plugin-host/contract.ts';
import { definePlugin } from '../plugin-host/define.ts';
import { TOKEN } from '../plugin-host/tokens.ts';
import { ConfusionMatrix } from './confusion-matrix.ts';
import type { MetricBatch } from './samples.ts';

const options = z.strictObject({
  classes: z.boolean().default(true).meta({ description: 'results of each class, besides their means' }),
});

type Options = z.output<typeof options>;

/** Numbers of one class. */
export interface ClassScores {
  /** Labelled items of the class. */
  readonly items: number;
  /** Share of them that was recognised (the class's accuracy); 0 without items. */
  readonly recall: number;
  /** Share of the predictions of this class that was right; 0 without predictions. */
  readonly precision: number;
  /** Harmonic mean of both; 0 where both are. */
  readonly f1: number;
}

/** Recall, precision and F1 of each class of a confusion matrix (rows: labels), as scikit-learn with `zero_division=0`. */
export function scoreClasses(rows: readonly (readonly number[])[]): ClassScores[] {
  return rows.map((row, c) => {
    const hits = row[c]!;
    const items = row.reduce((sum, n) => sum + n, 0);
    const predicted = rows.reduce((sum, other) => sum + other[c]!, 0);
    return {
      items,
      recall: items === 0 ? 0 : hits / items,
      precision: predicted === 0 ? 0 : hits / predicted,
      f1: items + predicted === 0 ? 0 : (2 * hits) / (items + predicted),
    };
  });
}

/**
 * `recall.<class>`, `precision.<class>`, `f1.<class>` by class index, and their unweighted means `macroRecall` (balanced accuracy),
 * `macroPrecision`, `macroF1` over the classes that have an item or a prediction.
 */
@injectable()
export class PerClass implements Metric {
  readonly #options: Options;
  readonly #matrix = new ConfusionMatrix();

  constructor(@inject(TOKEN.Options) options: Options = { classes: true }) {
    this.#options = options;
  }

  update(batch: MetricBatch): void {
    this.#matrix.update(batch);
  }

  result(): Record<string, number> {
    const rows = this.#matrix.rows();
    const scores = scoreClasses(rows);
    const present = scores.filter(({ items }, c) => items > 0 || rows.some((row) => row[c]! > 0));
    const withItems = scores.filter(({ items }) => items > 0);
    const mean = (of: readonly ClassScores[], key: keyof ClassScores) =>
      of.reduce((sum, score) => sum + score[key], 0) / of.length;
    const result: Record<string, number> = {
      macroRecall: mean(withItems, 'recall'),
      macroPrecision: mean(present, 'precision'),
      macroF1: mean(present, 'f1'),
    };
    if (!this.#options.classes) return result;
    scores.forEach(({ recall, precision, f1 }, c) => {
      Object.assign(result, { [`recall.${c}`]: recall, [`precision.${c}`]: precision, [`f1.${c}`]: f1 });
    });
    return result;
  }
}

export default definePlugin({
  name: 'per-class',
  kind: 'metric',
  apiVersion: 1,
  description: 'Recall, precision and F1 of each class, and their means.',
  options,
  implementation: PerClass,
});
