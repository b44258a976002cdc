import { definePlugin, inject, injectable, type Metric, TOKEN, z } from 'alambic/plugin';

const Options = z.strictObject({
  margin: z.number().min(0).default(1).describe('by how much the label must lead, in logits'),
});

/** Share of the labelled items whose label leads all other classes by at least `margin`. */
@injectable()
export class MyMetric implements Metric {
  #leading = 0;
  #items = 0;

  constructor(@inject(TOKEN.Options) private readonly options: z.output<typeof Options>) {}

  update({ logits, labels, classes }: Parameters<Metric['update']>[0]): void {
    for (const [item, label] of labels.entries()) {
      if (label < 0) continue;
      const row = logits.subarray(item * classes, (item + 1) * classes);
      const best = row.reduce(
        (most, value, i) => (i === label ? most : Math.max(most, value)),
        Number.NEGATIVE_INFINITY,
      );
      if (row[label]! - best >= this.options.margin) this.#leading++;
      this.#items++;
    }
  }

  result(): Record<string, number> {
    return { 'my-metric': this.#items === 0 ? Number.NaN : this.#leading / this.#items };
  }
}

export default definePlugin({
  name: 'my-metric',
  kind: 'metric',
  apiVersion: 1,
  description: 'Share of the items whose label leads by a margin.',
  options: Options,
  implementation: MyMetric,
});
