import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Schedule } from '../../plugin-host/contract.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { TOKEN } from '../../plugin-host/tokens.ts';
import { warmupFactor, warmupOption, warmupUpdates } from './warmup.ts';

const options = z.strictObject({
  final: z.number().min(0).max(1).default(0).meta({ description: 'factor of the rate that the end approaches, 0..1' }),
  warmup: warmupOption(),
});

type Options = z.output<typeof options>;

/**
 * Half a cosine from the base rate to `final` of it (arXiv 1608.03983, without restarts), as torch's CosineAnnealingLR over the updates
 * after the warm-up.
 *
 * @example
 * schedule: { use: cosine, warmup: 1, final: 0.01 }
 */
@injectable()
export class Cosine implements Schedule {
  constructor(@inject(TOKEN.Options) private readonly options: Options) {}

  factor(step: number, total: number, updatesPerEpoch: number): number {
    const { final, warmup } = this.options;
    const begin = warmupUpdates(warmup, total, updatesPerEpoch);
    if (step < begin) return warmupFactor(warmup, step, total, updatesPerEpoch);
    const done = total <= begin ? 0 : Math.min(1, (step - begin) / (total - begin));
    return final + ((1 - final) * (1 + Math.cos(Math.PI * done))) / 2;
  }
}

export default definePlugin({
  name: 'cosine',
  kind: 'schedule',
  apiVersion: 1,
  description: 'Half a cosine from the base rate down.',
  options,
  implementation: Cosine,
});
