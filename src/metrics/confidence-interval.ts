import { AlambicError } from '../errors.ts';

/** Wilson's score interval of a share. */
export interface Interval {
  readonly low: number;
  readonly high: number;
}

/**
 * Interval in which the true share lies with a confidence of 95 % (or by another normal quantile `z`), after `hits` of `count` trials:
 * Wilson's score interval, which stays within 0..1 and is right for few items and shares near 1. Without trials 0..1.
 *
 * @example
 * wilsonInterval(970, 1000); // { low: 0.9575, high: 0.9789 }
 */
export function wilsonInterval(hits: number, count: number, z = 1.959963984540054): Interval {
  if (!(count >= 0 && hits >= 0 && hits <= count)) {
    throw new AlambicError('INTERVAL_COUNTS', `expected 0 <= hits <= count, got ${hits} of ${count}`);
  }
  if (count === 0) return { low: 0, high: 1 };
  const share = hits / count;
  const spread = z ** 2 / count;
  const centre = (share + spread / 2) / (1 + spread);
  const half = (z * Math.sqrt((share * (1 - share)) / count + spread / (4 * count))) / (1 + spread);
  return { low: hits === 0 ? 0 : Math.max(0, centre - half), high: hits === count ? 1 : Math.min(1, centre + half) };
}
