/**
 * Every error that alambic raises on purpose: one class, a code, and a way out.
 *
 * A message says what was expected and what came; `hint` says what to do. Codes are stable: scripts may match on them.
 */

/** Process exit codes of the command line. */
export const EXIT = {
  ok: 0,
  /** A failure that is not the user's input: TensorFlow, disk, a bug. */
  failure: 1,
  /** The command line, a recipe or the data was wrong. */
  usage: 2,
  /** Training was interrupted (SIGINT, SIGTERM); a checkpoint was saved and `--resume` goes on from it. */
  interrupted: 75,
} as const;

export interface ErrorDetails {
  /** What the user can do about it, in one or two sentences. */
  hint?: string;
  /** Where: `recipe.yaml:12:5`, or the user's source line. */
  at?: string;
  /** Name of the plugin (and hook) in which it happened. */
  plugin?: string;
  cause?: unknown;
}

/**
 * The error class of alambic.
 *
 * @example
 * throw new AlambicError('DATA_EMPTY', `expected at least one image below ${folder}, found none`, {
 *   hint: 'Check the path, or list the accepted file endings with `extensions`.',
 * });
 */
export class AlambicError extends Error {
  readonly code: string;
  readonly hint: string | undefined;
  readonly at: string | undefined;
  readonly plugin: string | undefined;

  constructor(code: string, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'AlambicError';
    this.code = code;
    this.hint = details.hint;
    this.at = details.at;
    this.plugin = details.plugin;
  }

  /** Same error with more context; details that are already there win. */
  with(details: ErrorDetails): AlambicError {
    const error = new AlambicError(this.code, this.message, {
      ...details,
      ...Object.fromEntries(
        Object.entries({ hint: this.hint, at: this.at, plugin: this.plugin, cause: this.cause }).filter(
          ([, value]) => value !== undefined,
        ),
      ),
    });
    if (this.stack !== undefined) error.stack = this.stack;
    return error;
  }
}

/** Number of single-character edits (insert, delete, replace, swap of neighbours) between two strings. */
export function editDistance(a: string, b: string): number {
  const rows = a.length + 1;
  const columns = b.length + 1;
  const d = Array.from({ length: rows }, (_, i) => {
    const row = new Array<number>(columns).fill(0);
    row[0] = i;
    return row;
  });
  for (let j = 0; j < columns; j++) d[0]![j] = j;
  for (let i = 1; i < rows; i++)
    for (let j = 1; j < columns; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let best = Math.min(d[i - 1]![j]! + 1, d[i]![j - 1]! + 1, d[i - 1]![j - 1]! + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        best = Math.min(best, d[i - 2]![j - 2]! + 1);
      d[i]![j] = best;
    }
  return d[a.length]![b.length]!;
}

/** Known names ordered by likeness to `name`, the nearest first. */
export function rankByLikeness(name: string, known: Iterable<string>): string[] {
  const lower = name.toLowerCase();
  const score = (candidate: string) => {
    const other = candidate.toLowerCase();
    const distance = editDistance(lower, other);
    return other.includes(lower) || lower.includes(other) ? Math.min(distance, 2) : distance;
  };
  return [...known]
    .map((candidate) => ({ candidate, score: score(candidate) }))
    .sort((x, y) => x.score - y.score || x.candidate.localeCompare(y.candidate))
    .map(({ candidate }) => candidate);
}

/** The known name nearest to `name`, or undefined where none is close enough to be a typing error. */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  const [first] = rankByLikeness(name, known);
  if (first === undefined) return undefined;
  const a = name.toLowerCase();
  const b = first.toLowerCase();
  const close = editDistance(a, b) <= Math.max(2, Math.floor(Math.max(a.length, b.length) / 3));
  return close || (a.length >= 3 && (b.includes(a) || a.includes(b))) ? first : undefined;
}

/**
 * An unknown name among known ones: says what came, the nearest known name first, then the rest.
 *
 * @example
 * throw unknownName('UNKNOWN_MODEL', 'model', 'resnet81', models.keys());
 * // unknown model "resnet81": did you mean "resnet18"? Known: resnet18, resnet34, …
 */
export function unknownName(
  code: string,
  what: string,
  name: string,
  known: Iterable<string>,
  details: ErrorDetails = {},
): AlambicError {
  const ranked = rankByLikeness(name, known);
  const near = nearestName(name, ranked);
  const shown = ranked.slice(0, 12).join(', ') + (ranked.length > 12 ? `, … (${ranked.length} in all)` : '');
  return new AlambicError(code, `unknown ${what} "${name}"${near === undefined ? '' : `: did you mean "${near}"?`}`, {
    hint: ranked.length === 0 ? `No ${what} is known here.` : `Known: ${shown}.`,
    ...details,
  });
}
