import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Metric } from '../plugin-host/contract.ts';
import { definePlugin } from '../plugin-host/define.ts';
import { TOKEN } from '../plugin-host/tokens.ts';
import { eachLabelled, type MetricBatch } from './samples.ts';

const options = z.strictObject({
  k: z
    .array(z.int().positive())
    .min(1)
    .default([1, 5])
    .meta({ description: 'one result `top<k>` each: the label is among the k largest logits' }),
});

type Options = z.output<typeof options>;

/** Position of a class among the logits from 0; of equal logits the lower class comes first, as with a stable sort. */
export function rankOf(label: number, logits: Float32Array, offset: number, classes: number): number {
  const own = logits[offset + label]!;
  let rank = 0;
  for (let c = 0; c < classes; c++) {
    const other = logits[offset + c]!;
    if (other > own || (other === own && c < label)) rank++;
  }
  return rank;
}

/**
 * Share of the labelled items whose label is among the k largest logits: `top1`, `top5`, … A k of at least the number of classes gives 1.
 * NaN without any label.
 */
@injectable()
export class Accuracy implements Metric {
  readonly #k: readonly number[];
  readonly #hits: number[];
  #seen = 0;
  #count = 0;

  constructor(@inject(TOKEN.Options) options: Options = { k: [1, 5] }) {
    this.#k = options.k;
    this.#hits = options.k.map(() => 0);
  }

  update(batch: MetricBatch): void {
    eachLabelled(batch, this.#seen, (offset, label) => {
      const rank = rankOf(label, batch.logits, offset, batch.classes);
      this.#count++;
      this.#k.forEach((k, i) => {
        if (rank < k) this.#hits[i]!++;
      });
    });
    this.#seen += batch.labels.length;
  }

  result(): Record<string, number> {
    return Object.fromEntries(this.#k.map((k, i) => [`top${k}`, this.#hits[i]! / this.#count]));
  }
}

export default definePlugin({
  name: 'accuracy',
  kind: 'metric',
  apiVersion: 1,
  description: 'Share of the items whose label is among the k largest logits: top1, top5.',
  options,
  implementation: Accuracy,
});
