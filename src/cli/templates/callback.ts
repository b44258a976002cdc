import { definePlugin, inject, injectable, type Listener, type RunEvent, TOKEN, z } from 'alambic/plugin';

const Options = z.strictObject({
  epochs: z.int().positive().default(3).describe('epochs in a row with a growing loss after which it warns'),
  metric: z.string().default('train/loss').describe('what is watched'),
});

/** Warns when a loss has grown for some epochs in a row. */
@injectable()
export class MyCallback implements Listener {
  #last = Number.POSITIVE_INFINITY;
  #growing = 0;

  constructor(
    @inject(TOKEN.Options) private readonly options: z.output<typeof Options>,
    @inject(TOKEN.Events) private readonly events: Listener,
  ) {}

  on(event: RunEvent): void {
    if (event.type === 'stage-start') {
      this.#last = Number.POSITIVE_INFINITY;
      this.#growing = 0;
    }
    if (event.type !== 'epoch-end') return;
    const { epochs, metric } = this.options;
    const value = event.metrics[metric];
    if (value === undefined) return;
    this.#growing = value > this.#last ? this.#growing + 1 : 0;
    this.#last = value;
    if (this.#growing !== epochs) return;
    const message = `${metric} of stage "${event.stage}" has grown for ${epochs} epochs, to ${value}`;
    void this.events.on({ type: 'warning', code: 'LOSS_GROWS', message });
  }
}

export default definePlugin({
  name: 'my-callback',
  kind: 'callback',
  apiVersion: 1,
  description: 'Warn when a loss grows.',
  options: Options,
  implementation: MyCallback,
});
