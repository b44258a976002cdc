import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Schedule } from '../../plugin-host/contract.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { TOKEN } from '../../plugin-host/tokens.ts';

const options = z
  .strictObject({
    rise: z.number().gt(0).lt(1).default(0.3).meta({ description: 'share of the stage in which the rate rises, 0..1' }),
    anneal: z.enum(['cos', 'linear']).default('cos').meta({ description: 'form of both flanks' }),
    divide: z.number().min(1).default(25).meta({ description: 'the first rate is the base rate divided by this' }),
    divideFinal: z.number().min(1).default(1e4).meta({ description: 'the last rate is the first divided by this' }),
    cycleMomentum: z.boolean().default(true).meta({ description: 'move the momentum (adamw: beta1) against the rate' }),
    baseMomentum: z.number().min(0).lt(1).default(0.85).meta({ description: 'momentum at the highest rate, 0..1' }),
    maxMomentum: z.number().min(0).lt(1).default(0.95).meta({ description: 'momentum at first and last, 0..1' }),
  })
  .refine(({ baseMomentum, maxMomentum }) => baseMomentum <= maxMomentum, {
    message: 'baseMomentum must not be above maxMomentum',
    path: ['baseMomentum'],
  });

type Options = z.output<typeof options>;

/**
 * The 1cycle policy (arXiv 1708.07120): the rate rises to the base rate and falls far below where it began, the momentum moves against
 * it. As torch's OneCycleLR with two phases; the optimizer's `rate` is its `max_lr`.
 *
 * @example
 * schedule: { use: one-cycle, rise: 0.25 }
 */
@injectable()
export class OneCycle implements Schedule {
  readonly #options: Options;
  /** Momentum at an update; absent with `cycleMomentum: false`. */
  readonly momentum?: (step: number, total: number, updatesPerEpoch: number) => number;

  constructor(@inject(TOKEN.Options) options: Options) {
    this.#options = options;
    const { cycleMomentum, baseMomentum, maxMomentum } = options;
    if (cycleMomentum) this.momentum = (step, total) => this.#at(step, total, maxMomentum, baseMomentum, maxMomentum);
  }

  factor(step: number, total: number): number {
    const first = 1 / this.#options.divide;
    return this.#at(step, total, first, 1, first / this.#options.divideFinal);
  }

  /** Value between first, top and last at an update. */
  #at(step: number, total: number, first: number, top: number, last: number): number {
    const { rise, anneal } = this.#options;
    const peak = rise * total - 1;
    const end = total - 1;
    const between = anneal === 'cos' ? alongCosine : alongLine;
    if (step <= peak) return between(first, top, peak > 0 ? step / peak : 1);
    return between(top, last, Math.min(1, (step - peak) / (end - peak)));
  }
}

function alongCosine(from: number, to: number, share: number): number {
  return to + ((from - to) * (1 + Math.cos(Math.PI * share))) / 2;
}

function alongLine(from: number, to: number, share: number): number {
  return from + (to - from) * share;
}

export default definePlugin({
  name: 'one-cycle',
  kind: 'schedule',
  apiVersion: 1,
  description: 'The rate rises and falls far below its start, the momentum moves against it.',
  options,
  implementation: OneCycle,
});
