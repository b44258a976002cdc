import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Schedule } from '../../plugin-host/contract.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { TOKEN } from '../../plugin-host/tokens.ts';
import { warmupFactor, warmupOption } from './warmup.ts';

const options = z.strictObject({ warmup: warmupOption() });

type Options = z.output<typeof options>;

/**
 * The base rate all the time, after a warm-up if there is one.
 *
 * @example
 * schedule: { use: constant, warmup: { updates: 500 } }
 */
@injectable()
export class Constant implements Schedule {
  constructor(@inject(TOKEN.Options) private readonly options: Options) {}

  factor(step: number, total: number, updatesPerEpoch: number): number {
    return warmupFactor(this.options.warmup, step, total, updatesPerEpoch);
  }
}

export default definePlugin({
  name: 'constant',
  kind: 'schedule',
  apiVersion: 1,
  description: 'The base rate all the time.',
  options,
  implementation: Constant,
});
