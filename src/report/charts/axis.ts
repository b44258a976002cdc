/** A scale from values to pixels, with ticks at round values. */
export interface Axis {
  readonly low: number;
  readonly high: number;
  readonly ticks: readonly number[];
  at(value: number): number;
}

/**
 * A linear axis whose ends are round values.
 *
 * @param range Pixels of the low and the high end.
 * @param options.ticks About how many ticks. @default 4
 * @param options.most The axis does not go beyond this value (1 for shares).
 */
export function linearAxis(
  values: readonly number[],
  range: readonly [number, number],
  options: { ticks?: number; least?: number; most?: number; whole?: boolean } = {},
): Axis {
  const {
    ticks: wanted = 4,
    least = Number.NEGATIVE_INFINITY,
    most = Number.POSITIVE_INFINITY,
    whole = false,
  } = options;
  const finite = values.filter(Number.isFinite);
  let low = finite.length === 0 ? 0 : Math.min(...finite);
  let high = finite.length === 0 ? 1 : Math.max(...finite);
  if (high - low < 1e-12 * Math.max(1, Math.abs(high))) {
    const half = whole ? 1 : Math.abs(high) * 0.1 || 0.5;
    low -= half;
    high += half;
  }
  const step = roundStep((high - low) / wanted, whole);
  low = Math.max(least, Math.floor(low / step + 1e-9) * step);
  high = Math.min(most, Math.ceil(high / step - 1e-9) * step);
  const ticks: number[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++)
    ticks.push(Number((i * step).toPrecision(12)));
  const [from, to] = range;
  return { low, high, ticks, at: (value) => from + ((value - low) / (high - low)) * (to - from) };
}

/** The next of 1, 2, 5 times a power of ten. */
function roundStep(rough: number, whole: boolean): number {
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= rough * (1 - 1e-9)) ?? 10;
  return whole ? Math.max(1, Math.round(factor * power)) : factor * power;
}

/** Moves positions apart so that neighbours keep a distance, as near to where they were as it goes; the order of the input stays. */
export function spreadApart(positions: readonly number[], distance: number, low: number, high: number): number[] {
  const order = positions.map((position, index) => ({ position, index })).sort((a, b) => a.position - b.position);
  const placed = order.map(({ position }) => position);
  for (let i = 1; i < placed.length; i++) placed[i] = Math.max(placed[i]!, placed[i - 1]! + distance);
  const over = (placed.at(-1) ?? high) - high;
  if (over > 0) {
    placed[placed.length - 1] = high;
    for (let i = placed.length - 2; i >= 0; i--) placed[i] = Math.min(placed[i]!, placed[i + 1]! - distance);
  }
  const out = new Array<number>(positions.length);
  order.forEach(({ index }, i) => {
    out[index] = Math.max(low, placed[i]!);
  });
  return out;
}

/** Pixels with one decimal: small files, no visible difference. */
export const px = (value: number): string => String(Number(value.toFixed(1)));
