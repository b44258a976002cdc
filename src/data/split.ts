import { z } from 'zod';
import { AlambicError, unknownName } from '../errors.ts';
import { unitHash } from './hash.ts';
import type { SampleInfo, Source } from './source.ts';

/** How one split is chosen: a share of all items, the source's own split of that name, or a share of it. */
export const splitRuleSchema = z.union([
  z.number().gt(0).lte(1).describe('share of all items, 0..1'),
  z.string().min(1).describe("the source's own split: the items whose id begins with this name and `/`"),
  z.strictObject({
    from: z.string().min(1).describe("the source's own split"),
    share: z.number().gt(0).lte(1).describe('share of it, 0..1'),
  }),
]);

/** Rules by the name of the split, for instance `{ train: { from: train, share: 0.9 }, dev: { from: train, share: 0.1 }, test: test }`. */
export const splitsSchema = z.record(z.string().min(1), splitRuleSchema);

export type SplitRule = z.infer<typeof splitRuleSchema>;
export type SplitRules = z.infer<typeof splitsSchema>;

/** Positions in the source, ascending, by the name of the split. */
export type Splits = Record<string, Int32Array>;

/**
 * Names of a source's own splits: the first folder of the ids, where every id has one and they are not the folders of the classes
 * (which hold one label each).
 */
export function ownSplits(items: readonly SampleInfo[]): string[] {
  const labels = new Map<string, Set<number>>();
  for (const { id, label } of items) {
    const slash = id.indexOf('/');
    if (slash < 1) return [];
    const name = id.slice(0, slash);
    const known = labels.get(name);
    if (known === undefined) labels.set(name, new Set([label]));
    else known.add(label);
  }
  return [...labels.values()].some((known) => known.size > 1) ? [...labels.keys()] : [];
}

/**
 * Divides the items of a source by the hash of their ids: whether an item is in a split depends on its id, the salt and the shares
 * only, so adding or removing other items moves nothing. The shares of a split of one origin are laid side by side in 0..1 in the
 * order of the rules; what they leave is in no split.
 *
 * Throws `DATA_DUPLICATE` for equal ids, `DATA_SPLIT` for shares above 1 or overlapping rules, `UNKNOWN_SPLIT`, and `DATA_EMPTY` for a
 * split without items.
 *
 * @example
 * const { train, test } = splitItems(source, { train: 0.8, test: 0.2 });
 */
export function splitItems(source: Source, rules: SplitRules, salt = ''): Splits {
  const { items } = source;
  checkUnique(items, source.name);
  const sums = new Map<string, number>();
  const ranges = Object.entries(rules).map(([name, rule]) => {
    const from = typeof rule === 'number' ? '' : typeof rule === 'string' ? rule : rule.from;
    const share = typeof rule === 'number' ? rule : typeof rule === 'string' ? 1 : rule.share;
    const begin = sums.get(from) ?? 0;
    // Shares such as 0.7 + 0.1 + 0.2 come to 1 only up to rounding.
    const end = Math.abs(begin + share - 1) < 1e-9 ? 1 : begin + share;
    if (end > 1) {
      throw new AlambicError(
        'DATA_SPLIT',
        `expected the shares of ${from === '' ? 'all items' : `"${from}"`} to come to at most 1, got ${end} with "${name}"`,
        { hint: 'Lower the shares under `splits`.' },
      );
    }
    sums.set(from, end);
    return { name, prefix: from === '' ? '' : `${from}/`, begin, end };
  });

  const hashes = items.map(({ id }) => unitHash(id, `split/${salt}`));
  const taken = new Map<number, string>();
  const splits: Splits = {};
  for (const { name, prefix, begin, end } of ranges) {
    const chosen: number[] = [];
    for (const [i, { id }] of items.entries()) {
      if (!id.startsWith(prefix) || hashes[i]! < begin || hashes[i]! >= end) continue;
      const other = taken.get(i);
      if (other !== undefined) {
        throw new AlambicError('DATA_SPLIT', `expected disjoint splits, but ${id} is in "${other}" and in "${name}"`, {
          hint: 'Write every split that takes from the same items with a share, for instance `{ from: train, share: 0.9 }`.',
        });
      }
      taken.set(i, name);
      chosen.push(i);
    }
    if (chosen.length === 0) throw emptySplit(source, name, prefix);
    splits[name] = Int32Array.from(chosen);
  }
  return splits;
}

function emptySplit(source: Source, name: string, prefix: string): AlambicError {
  const own = ownSplits(source.items);
  if (prefix !== '' && !source.items.some(({ id }) => id.startsWith(prefix))) {
    return unknownName('UNKNOWN_SPLIT', `split of ${source.name}`, prefix.slice(0, -1), own);
  }
  return new AlambicError('DATA_EMPTY', `expected at least one item in the split "${name}", got none`, {
    hint: `The source has ${source.items.length} items; give the split a larger share.`,
  });
}

function checkUnique(items: readonly SampleInfo[], name: string): void {
  const seen = new Set<string>();
  for (const { id } of items) {
    if (seen.has(id)) {
      throw new AlambicError(
        'DATA_DUPLICATE',
        `expected every item of ${name} to have an id of its own, got "${id}" twice`,
        {
          hint: 'Splits and caches are keyed by the id: make it unique, for instance a relative path.',
        },
      );
    }
    seen.add(id);
  }
}

/**
 * Chooses which training items keep their label; the other items of `indices` get -1. Returns a label for every item of the source
 * (items outside `indices` keep theirs).
 *
 * `labelled` is the number of items over all classes, spread evenly, or the number for each class by name (classes that are not named
 * lose all labels). The choice goes by the hash of the id, so it does not depend on the listing, and a larger number contains the
 * smaller choice. Where a class runs out, the others make up for it.
 *
 * Throws `DATA_LABELLED` where there are fewer labelled items than asked for, or fewer than one for each class.
 *
 * @example
 * const labels = selectLabelled(source, splits.train, 200);
 */
export function selectLabelled(
  source: Source,
  indices: ArrayLike<number>,
  labelled: number | Readonly<Record<string, number>>,
  salt = '',
): Int32Array {
  const queues = source.labels.map(() => [] as { index: number; hash: number }[]);
  const labels = Int32Array.from(source.items, ({ label }) => label);
  for (let k = 0; k < indices.length; k++) {
    const index = indices[k]!;
    const { id, label } = source.items[index]!;
    if (label >= 0) queues[label]!.push({ index, hash: unitHash(id, `labelled/${salt}`) });
    labels[index] = -1;
  }
  for (const queue of queues) queue.sort((a, b) => a.hash - b.hash || a.index - b.index);
  const counts = typeof labelled === 'number' ? spread(labelled, queues, salt) : namedCounts(labelled, source, queues);
  for (const [label, count] of counts.entries()) {
    for (const { index } of queues[label]!.slice(0, count)) labels[index] = label;
  }
  return labels;
}

/** Items of each class: rounds of one for each, in an order of the classes that is new in every round. */
function spread(total: number, queues: readonly (readonly unknown[])[], salt: string): number[] {
  const available = queues.reduce((sum, queue) => sum + queue.length, 0);
  const classes = queues.filter((queue) => queue.length > 0).length;
  if (!Number.isInteger(total) || total > available || total < classes) {
    throw new AlambicError(
      'DATA_LABELLED',
      `expected a whole number of labelled items from ${classes} (one for each class) to ${available} (all), got ${total}`,
      { hint: 'Change `labelled`, or give the training split a larger share.' },
    );
  }
  const counts = queues.map(() => 0);
  let left = total;
  for (let round = 0; left > 0; round++) {
    const open = queues
      .flatMap((queue, label) => (queue.length > round ? [label] : []))
      .map((label) => ({ label, hash: unitHash(`${label}`, `round/${round}/${salt}`) }))
      .sort((a, b) => a.hash - b.hash || a.label - b.label);
    for (const { label } of open.slice(0, left)) counts[label]! += 1;
    left -= Math.min(left, open.length);
  }
  return counts;
}

function namedCounts(
  labelled: Readonly<Record<string, number>>,
  source: Source,
  queues: readonly (readonly unknown[])[],
): number[] {
  const counts = source.labels.map(() => 0);
  for (const [name, count] of Object.entries(labelled)) {
    const label = source.labels.indexOf(name);
    if (label < 0) throw unknownName('UNKNOWN_LABEL', 'class', name, source.labels);
    const available = queues[label]!.length;
    if (!Number.isInteger(count) || count < 0 || count > available) {
      throw new AlambicError(
        'DATA_LABELLED',
        `expected from 0 to ${available} labelled items of the class "${name}", got ${count}`,
        { hint: 'Change `labelled`, or give the training split a larger share.' },
      );
    }
    counts[label] = count;
  }
  return counts;
}
