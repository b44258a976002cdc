import { injectable } from 'inversify';
import { z } from 'zod';
import { AlambicError } from '../errors.ts';
import type { Metric } from '../plugin-host/contract.ts';
import { definePlugin } from '../plugin-host/define.ts';
import { eachLabelled, type MetricBatch } from './samples.ts';

/** `loss`: mean of the cross-entropy over the labelled items. NaN without any label. */
@injectable()
export class MeanLoss implements Metric {
  #seen = 0;
  #sum = 0;
  #count = 0;

  update(batch: MetricBatch): void {
    eachLabelled(batch, this.#seen, (_offset, _label, item) => {
      const loss = batch.losses[item]!;
      if (!Number.isFinite(loss)) {
        throw new AlambicError('METRIC_NOT_FINITE', `sample ${this.#seen + item} has the loss ${loss}`, {
          hint: 'The network has diverged or its input is broken: look at that sample, and lower the learning rate.',
        });
      }
      this.#sum += loss;
      this.#count++;
    });
    this.#seen += batch.labels.length;
  }

  result(): Record<string, number> {
    return { loss: this.#sum / this.#count };
  }
}

export default definePlugin({
  name: 'loss',
  kind: 'metric',
  apiVersion: 1,
  description: 'Mean cross-entropy with the labels.',
  options: z.strictObject({}),
  implementation: MeanLoss,
});
