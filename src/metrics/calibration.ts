import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Metric } from '../plugin-host/contract.ts';
import { definePlugin } from '../plugin-host/define.ts';
import { TOKEN } from '../plugin-host/tokens.ts';
import { argMax, eachLabelled, logSumExp, type MetricBatch } from './samples.ts';

const options = z.strictObject({
  bins: z.int().positive().default(15).meta({ description: 'bins of equal width of the confidence' }),
});

type Options = z.output<typeof options>;

/** One bin of a reliability diagram. */
export interface ReliabilityBin {
  readonly items: number;
  /** Means over the bin's items, 0 where it is empty. */
  readonly confidence: number;
  readonly accuracy: number;
}

/**
 * How far the probabilities can be trusted: `ece`, the expected calibration error over bins `(i/bins, (i+1)/bins]` of the confidence
 * (arXiv 1706.04599); `brier`, the mean squared distance of the probabilities to the one-hot label, summed over classes (0..2); `nll`,
 * the mean negative log-likelihood. In float64. NaN without any label.
 */
@injectable()
export class Calibration implements Metric {
  readonly #items: Float64Array;
  readonly #confidence: Float64Array;
  readonly #hits: Float64Array;
  #brier = 0;
  #nll = 0;
  #count = 0;
  #seen = 0;

  constructor(@inject(TOKEN.Options) options: Options = { bins: 15 }) {
    this.#items = new Float64Array(options.bins);
    this.#confidence = new Float64Array(options.bins);
    this.#hits = new Float64Array(options.bins);
  }

  update(batch: MetricBatch): void {
    const { logits, classes } = batch;
    const bins = this.#items.length;
    eachLabelled(batch, this.#seen, (offset, label) => {
      const normaliser = logSumExp(logits, offset, classes);
      const predicted = argMax(logits, offset, classes);
      const confidence = Math.exp(logits[offset + predicted]! - normaliser);
      const bin = Math.min(bins - 1, Math.max(0, Math.ceil(confidence * bins) - 1));
      this.#items[bin] = this.#items[bin]! + 1;
      this.#confidence[bin] = this.#confidence[bin]! + confidence;
      if (predicted === label) this.#hits[bin] = this.#hits[bin]! + 1;
      for (let c = 0; c < classes; c++) {
        const p = Math.exp(logits[offset + c]! - normaliser);
        this.#brier += (p - (c === label ? 1 : 0)) ** 2;
      }
      this.#nll += normaliser - logits[offset + label]!;
      this.#count++;
    });
    this.#seen += batch.labels.length;
  }

  /** Bins of the reliability diagram, from low to high confidence. */
  bins(): ReliabilityBin[] {
    return Array.from(this.#items, (items, i) => ({
      items,
      confidence: items === 0 ? 0 : this.#confidence[i]! / items,
      accuracy: items === 0 ? 0 : this.#hits[i]! / items,
    }));
  }

  result(): Record<string, number> {
    let gap = 0;
    this.#items.forEach((_, i) => {
      gap += Math.abs(this.#confidence[i]! - this.#hits[i]!);
    });
    return { ece: gap / this.#count, brier: this.#brier / this.#count, nll: this.#nll / this.#count };
  }
}

export default definePlugin({
  name: 'calibration',
  kind: 'metric',
  apiVersion: 1,
  description: 'Expected calibration error, Brier score and negative log-likelihood.',
  options,
  implementation: Calibration,
});
