import { AlambicError } from '../errors.ts';
import type { Metric } from '../plugin-host/contract.ts';

/** What a metric is given: logits [N,C] row by row, labels [N] (-1 = none), cross-entropy per item [N]. */
export type MetricBatch = Parameters<Metric['update']>[0];

/**
 * Calls `visit` for each item that has a label, with the offset of its logits. Throws METRIC_NOT_FINITE with the item's number,
 * METRIC_SHAPE and METRIC_LABEL.
 *
 * @param seen Items of earlier batches, for the number in the message.
 */
export function eachLabelled(
  batch: MetricBatch,
  seen: number,
  visit: (offset: number, label: number, item: number) => void,
): void {
  const { logits, labels, classes } = batch;
  if (logits.length !== labels.length * classes) {
    throw new AlambicError('METRIC_SHAPE', `expected ${labels.length} x ${classes} logits, got ${logits.length}`);
  }
  for (let item = 0; item < labels.length; item++) {
    const offset = item * classes;
    for (let c = 0; c < classes; c++) {
      if (!Number.isFinite(logits[offset + c])) {
        throw new AlambicError(
          'METRIC_NOT_FINITE',
          `sample ${seen + item} has the logit ${logits[offset + c]} for class ${c}`,
          {
            hint: 'The network has diverged or its input is broken: look at that sample, and lower the learning rate.',
          },
        );
      }
    }
    const label = labels[item]!;
    if (label < 0) continue;
    if (label >= classes) {
      throw new AlambicError('METRIC_LABEL', `sample ${seen + item} has label ${label}, expected 0..${classes - 1}`, {
        hint: 'The network must have as many classes as the data has labels.',
      });
    }
    visit(offset, label, item);
  }
}

/** Class of the largest logit; of equal ones the first. */
export function argMax(logits: Float32Array, offset: number, classes: number): number {
  let best = 0;
  for (let c = 1; c < classes; c++) if (logits[offset + c]! > logits[offset + best]!) best = c;
  return best;
}

/** log Σ exp of a row of logits, in float64. */
export function logSumExp(logits: Float32Array, offset: number, classes: number): number {
  const largest = logits[offset + argMax(logits, offset, classes)]!;
  let sum = 0;
  for (let c = 0; c < classes; c++) sum += Math.exp(logits[offset + c]! - largest);
  return largest + Math.log(sum);
}
