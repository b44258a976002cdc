/** Two-sided 95 % of the normal distribution. */
const Z = 1.959963984540054;

export interface Interval {
  readonly low: number;
  readonly high: number;
}

/** Wilson's 95 % interval of a share seen in `items` independent items; [0, 1] for none. */
export function wilsonInterval(share: number, items: number): Interval {
  if (items <= 0) return { low: 0, high: 1 };
  const z2 = Z * Z;
  const centre = (share + z2 / (2 * items)) / (1 + z2 / items);
  const half = (Z / (1 + z2 / items)) * Math.sqrt((share * (1 - share)) / items + z2 / (4 * items * items));
  return { low: Math.max(0, centre - half), high: Math.min(1, centre + half) };
}

/**
 * Difference of two accuracies on the same items with its 95 % interval (Wald, with the Bonett-Price adjustment for paired shares, two
 * half observations of each kind). Far narrower than two separate intervals where the models mostly agree.
 *
 * @param a `0` and `1` per item, of the model; `b` those of the baseline, in the same order.
 */
export function pairedDifference(a: string, b: string): Interval & { readonly difference: number } {
  const items = a.length;
  let onlyA = 0;
  let onlyB = 0;
  for (let i = 0; i < items; i++) {
    if (a[i] === '1' && b[i] === '0') onlyA++;
    if (a[i] === '0' && b[i] === '1') onlyB++;
  }
  const p = (onlyA + 1) / (items + 2);
  const q = (onlyB + 1) / (items + 2);
  const half = Z * Math.sqrt((p + q - (p - q) ** 2) / (items + 2));
  return {
    difference: items === 0 ? 0 : (onlyA - onlyB) / items,
    low: Math.max(-1, p - q - half),
    high: Math.min(1, p - q + half),
  };
}

/** The same from the accuracies alone, as if the items were different ones: wider (Newcombe's hybrid score interval). */
export function unpairedDifference(
  a: number,
  itemsA: number,
  b: number,
  itemsB: number,
): Interval & { readonly difference: number } {
  const x = wilsonInterval(a, itemsA);
  const y = wilsonInterval(b, itemsB);
  return {
    difference: a - b,
    low: a - b - Math.hypot(a - x.low, y.high - b),
    high: a - b + Math.hypot(x.high - a, b - y.low),
  };
}
