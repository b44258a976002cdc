const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'variant' });

/**
 * Compares names as people count: `2` before `10`, `img9` before `img10`. Names that differ only in leading zeros or case
 * still have one fixed order, so a listing never depends on the file system.
 */
export function compareNaturally(a: string, b: string): number {
  const order = collator.compare(a, b);
  if (order !== 0) return order;
  return a < b ? -1 : a > b ? 1 : 0;
}
