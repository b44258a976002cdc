import { createHash } from 'node:crypto';
import { AlambicError } from '../errors.ts';
import type { Source } from './source.ts';
import type { Splits } from './split.ts';

/** Something about a data set that its user should know before training. */
export interface DataFinding {
  readonly code:
    | 'DATA_RANGE'
    | 'DATA_CONSTANT'
    | 'DATA_BALANCE'
    | 'DATA_CLASS'
    | 'DATA_LEAK'
    | 'DATA_TWICE'
    | 'DATA_UNREADABLE';
  readonly level: 'note' | 'warning';
  readonly message: string;
  readonly hint?: string;
}

export interface DataReport {
  /** Items of each class (in the order of the labels), by split; unlabelled items are not in it. */
  readonly counts: Readonly<Record<string, readonly number[]>>;
  /** Smallest and largest pixel value of the images that were read. */
  readonly range: readonly [low: number, high: number];
  /** Number of images that were read. */
  readonly read: number;
  readonly findings: readonly DataFinding[];
}

export interface DataCheckOptions {
  /** Most images to read; of a larger set, evenly spaced ones. @default Infinity */
  readonly limit?: number;
  /** Labels to count instead of the source's own, for each item of the source. */
  readonly labels?: ArrayLike<number>;
  /** Ratio of the largest to the smallest class of a split above which it is reported. @default 10 */
  readonly imbalance?: number;
  /** @default 8 */
  readonly readers?: number;
}

/**
 * Looks at a data set as it will be used: value range, balance of the classes, and images that are in two splits (by the hash of their
 * pixels), which would make an evaluation dishonest.
 *
 * @example
 * const { findings } = await checkData(source, splitItems(source, { train: 0.8, test: 0.2 }));
 */
export async function checkData(source: Source, splits: Splits, options: DataCheckOptions = {}): Promise<DataReport> {
  const labels = options.labels ?? source.items.map(({ label }) => label);
  const counts = Object.fromEntries(
    Object.entries(splits).map(([split, indices]) => {
      const row = source.labels.map(() => 0);
      for (const index of indices) if (labels[index]! >= 0) row[labels[index]!]! += 1;
      return [split, row];
    }),
  );
  const pixels = await readPixels(source, splits, options);
  return {
    counts,
    range: [pixels.low, pixels.high],
    read: pixels.read,
    findings: [...balanceFindings(source, counts, options.imbalance ?? 10), ...pixels.findings],
  };
}

function balanceFindings(
  source: Source,
  counts: Readonly<Record<string, readonly number[]>>,
  limit: number,
): DataFinding[] {
  const findings: DataFinding[] = [];
  for (const [split, row] of Object.entries(counts)) {
    if (row.every((count) => count === 0)) continue;
    const missing = source.labels.filter((_, label) => row[label] === 0);
    if (missing.length > 0) {
      findings.push({
        code: 'DATA_CLASS',
        level: 'warning',
        message: `the split "${split}" has no labelled item of ${missing.length} class(es): ${list(missing)}`,
        hint: 'Such a class can be neither learnt nor measured there.',
      });
    }
    const present = row.filter((count) => count > 0);
    const ratio = Math.max(...present) / Math.min(...present);
    if (ratio > limit) {
      findings.push({
        code: 'DATA_BALANCE',
        level: 'warning',
        message:
          `the largest class of the split "${split}" ("${source.labels[row.indexOf(Math.max(...present))]}", ` +
          `${Math.max(...present)} items) is ${ratio.toFixed(1)} times the smallest ` +
          `("${source.labels[row.indexOf(Math.min(...present))]}", ${Math.min(...present)})`,
        hint: 'Look at the accuracy of each class, not only at the mean.',
      });
    }
  }
  return findings;
}

async function readPixels(source: Source, splits: Splits, options: DataCheckOptions) {
  const all = Object.entries(splits).flatMap(([split, indices]) => Array.from(indices, (index) => ({ split, index })));
  const { limit = Number.POSITIVE_INFINITY, readers = 8 } = options;
  const stride = Math.max(1, all.length / limit);
  const chosen = Array.from({ length: Math.floor(all.length / stride) }, (_, i) => all[Math.floor(i * stride)]!);
  const digests = new Array<string | undefined>(chosen.length);
  const constant: string[] = [];
  const unreadable: string[] = [];
  let low = 255;
  let high = 0;
  let next = 0;
  const work = async () => {
    while (next < chosen.length) {
      const at = next++;
      const { index } = chosen[at]!;
      const { id } = source.items[index]!;
      try {
        const image = source.readSync?.(index) ?? (await source.read(index));
        let [least, most] = [255, 0];
        for (const value of image.data) {
          if (value < least) least = value;
          if (value > most) most = value;
        }
        low = Math.min(low, least);
        high = Math.max(high, most);
        if (least === most) constant.push(id);
        digests[at] = createHash('sha256')
          .update(`${image.height}x${image.width}x${image.channels}`)
          .update(image.data)
          .digest('base64');
      } catch (error) {
        if (!(error instanceof AlambicError) || error.code !== 'DATA_UNREADABLE') throw error;
        unreadable.push(id);
      }
    }
  };
  await Promise.all(Array.from({ length: readers }, work));
  const read = chosen.length - unreadable.length;
  const findings: DataFinding[] = [];
  if (unreadable.length > 0) {
    findings.push({
      code: 'DATA_UNREADABLE',
      level: 'warning',
      message: `${unreadable.length} of ${chosen.length} images cannot be read: ${list(unreadable.sort())}`,
      hint: 'Repair or remove them, or let the run go on without them (`data: { loader: { onUnreadable: skip } }`).',
    });
  }
  if (read > 0 && high <= 1) {
    findings.push({
      code: 'DATA_RANGE',
      level: 'warning',
      message: `pixel values go from ${low} to ${high}; expected 0 to 255`,
      hint: 'Were values of 0..1 stored as bytes? Multiply them by 255.',
    });
  }
  if (constant.length > 0) {
    findings.push({
      code: 'DATA_CONSTANT',
      level: 'note',
      message: `${constant.length} image(s) are of one colour only: ${list(constant.sort())}`,
    });
  }
  findings.push(...duplicateFindings(source, chosen, digests));
  return { low, high, read, findings };
}

function duplicateFindings(
  source: Source,
  chosen: readonly { split: string; index: number }[],
  digests: readonly (string | undefined)[],
): DataFinding[] {
  const first = new Map<string, number>();
  const leaks: string[] = [];
  const twice: string[] = [];
  for (const [at, digest] of digests.entries()) {
    if (digest === undefined) continue;
    const before = first.get(digest);
    if (before === undefined) {
      first.set(digest, at);
      continue;
    }
    const [a, b] = [chosen[before]!, chosen[at]!];
    const pair = `${source.items[a.index]!.id} (${a.split}) = ${source.items[b.index]!.id} (${b.split})`;
    (a.split === b.split ? twice : leaks).push(pair);
  }
  const findings: DataFinding[] = [];
  if (leaks.length > 0) {
    findings.push({
      code: 'DATA_LEAK',
      level: 'warning',
      message: `${leaks.length} image(s) are in two splits: ${list(leaks)}`,
      hint: 'Remove the copies, else the evaluation sees what was trained on.',
    });
  }
  if (twice.length > 0) {
    findings.push({
      code: 'DATA_TWICE',
      level: 'note',
      message: `${twice.length} image(s) are twice in one split: ${list(twice)}`,
    });
  }
  return findings;
}

function list(names: readonly string[]): string {
  return names.slice(0, 5).join(', ') + (names.length > 5 ? `, … (${names.length} in all)` : '');
}
