import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Schedule } from '../../plugin-host/contract.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { TOKEN } from '../../plugin-host/tokens.ts';
import { warmupFactor, warmupOption } from './warmup.ts';

const options = z.strictObject({
  milestones: z
    .array(z.number().nonnegative())
    .min(1)
    .meta({ description: 'where the rate drops, counted from the beginning of the stage, warm-up included' }),
  unit: z
    .enum(['epochs', 'updates', 'share'])
    .default('epochs')
    .meta({ description: 'what the milestones count; share: of the stage, 0..1' }),
  gamma: z.number().positive().default(0.1).meta({ description: 'factor of each drop' }),
  warmup: warmupOption(),
});

type Options = z.output<typeof options>;

/**
 * The base rate times `gamma` for each milestone that is reached, as torch's MultiStepLR (chained with a LinearLR for the warm-up).
 *
 * @example
 * schedule: { use: multi-step, milestones: [150, 180, 210] }
 */
@injectable()
export class MultiStep implements Schedule {
  constructor(@inject(TOKEN.Options) private readonly options: Options) {}

  factor(step: number, total: number, updatesPerEpoch: number): number {
    const { milestones, unit, gamma, warmup } = this.options;
    const perUnit = { epochs: updatesPerEpoch, updates: 1, share: total }[unit];
    const reached = milestones.filter((milestone) => step >= Math.round(milestone * perUnit)).length;
    return warmupFactor(warmup, step, total, updatesPerEpoch) * gamma ** reached;
  }
}

export default definePlugin({
  name: 'multi-step',
  kind: 'schedule',
  apiVersion: 1,
  description: 'Drops the rate by a factor at each milestone.',
  options,
  implementation: MultiStep,
});
