import { argMax, eachLabelled, type MetricBatch } from './samples.ts';

/** Counts of (label, predicted class), accumulated batch by batch. Of equal logits the lower class is predicted. */
export class ConfusionMatrix {
  #counts = new Float64Array(0);
  #classes = 0;
  #seen = 0;

  update(batch: MetricBatch): void {
    const { classes, logits } = batch;
    if (this.#classes === 0) {
      this.#classes = classes;
      this.#counts = new Float64Array(classes * classes);
    }
    eachLabelled(batch, this.#seen, (offset, label) => {
      const cell = label * classes + argMax(logits, offset, classes);
      this.#counts[cell] = this.#counts[cell]! + 1;
    });
    this.#seen += batch.labels.length;
  }

  get classes(): number {
    return this.#classes;
  }

  /** Items of class `label` that were taken for `predicted`. */
  count(label: number, predicted: number): number {
    return this.#counts[label * this.#classes + predicted]!;
  }

  /** Rows: labels; columns: predictions. */
  rows(): number[][] {
    return Array.from({ length: this.#classes }, (_, label) =>
      Array.from(this.#counts.subarray(label * this.#classes, (label + 1) * this.#classes)),
    );
  }
}

/**
 * Confusion matrix of outputs, one row per label, one column per prediction; items without label do not count.
 *
 * @example
 * const rows = confusionMatrix({ logits, labels, classes: 10 });
 */
export function confusionMatrix(outputs: Omit<MetricBatch, 'losses'>): number[][] {
  const matrix = new ConfusionMatrix();
  matrix.update({ ...outputs, losses: new Float32Array(0) });
  return matrix.rows();
}
