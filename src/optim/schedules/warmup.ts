import { z } from 'zod';

/** A linear warm-up: how long, and from which factor. */
export interface Warmup {
  readonly epochs?: number | undefined;
  readonly updates?: number | undefined;
  /** Share of the stage, 0..1. */
  readonly share?: number | undefined;
  /** Factor of the first update, 0..1. @default 0.01 */
  readonly start?: number | undefined;
}

const start = () =>
  z.number().min(0).max(1).default(0.01).meta({ description: 'factor of the rate at the first update, 0..1' });

/** Option `warmup`: a number of epochs, or `{ epochs | updates | share, start }`. */
export const warmupOption = () =>
  z
    .union([
      z.number().nonnegative().meta({ description: 'epochs' }),
      z.strictObject({ epochs: z.number().nonnegative().meta({ description: 'length in epochs' }), start: start() }),
      z.strictObject({ updates: z.int().nonnegative().meta({ description: 'length in updates' }), start: start() }),
      z.strictObject({
        share: z.number().min(0).max(1).meta({ description: 'share of the stage, 0..1' }),
        start: start(),
      }),
    ])
    .default(0)
    .meta({ description: 'linear rise of the rate at the beginning: epochs, or { epochs | updates | share, start }' });

/** Updates that a warm-up takes, at most the whole stage. */
export function warmupUpdates(warmup: number | Warmup, total: number, updatesPerEpoch: number): number {
  const { epochs, updates, share } = typeof warmup === 'number' ? { epochs: warmup } : (warmup as Warmup);
  const length = updates ?? (share === undefined ? (epochs ?? 0) * updatesPerEpoch : share * total);
  return Math.min(Math.round(length), total);
}

/** Factor within the warm-up, as torch's LinearLR: `start + (1 − start) · step / length`; 1 after it. */
export function warmupFactor(warmup: number | Warmup, step: number, total: number, updatesPerEpoch: number): number {
  const length = warmupUpdates(warmup, total, updatesPerEpoch);
  if (step >= length) return 1;
  const from = (typeof warmup === 'number' ? undefined : warmup.start) ?? 0.01;
  return from + ((1 - from) * step) / length;
}
