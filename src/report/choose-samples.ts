/** Whether the models were right on an item. */
export interface Verdict {
  readonly index: number;
  readonly model: boolean;
  /** Absent where there is no baseline. */
  readonly baseline?: boolean;
  /** The model's probability of the true class. */
  readonly truth: number;
}

/**
 * Picks items worth looking at: what only the model gets right (or only the baseline), its surest mistakes, and a few that are right, spread
 * over the split; at most `count`, without a random number.
 */
export function chooseSamples(verdicts: readonly Verdict[], count = 18): number[] {
  const wrong = verdicts.filter(({ model }) => !model).sort((a, b) => a.truth - b.truth);
  const gained = verdicts
    .filter(({ model, baseline }) => model && baseline === false)
    .sort((a, b) => b.truth - a.truth);
  const right = verdicts.filter(({ model, baseline }) => model && baseline !== false);
  const third = Math.floor(count / 3);
  const lists = [spread(gained.slice(0, third * 3), third), wrong.slice(0, third), spread(right, third)];
  const chosen = new Set(lists.flat().map(({ index }) => index));
  // What one list lacks the others give.
  for (const { index } of [...gained, ...wrong, ...spread(right, count)]) {
    if (chosen.size >= Math.min(count, verdicts.length)) break;
    chosen.add(index);
  }
  return [...chosen];
}

/** `count` elements at equal distances. */
function spread<T>(list: readonly T[], count: number): T[] {
  if (list.length <= count) return [...list];
  return Array.from({ length: count }, (_, i) => list[Math.floor((i * list.length) / count)]!);
}
