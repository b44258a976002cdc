import { AlambicError, nearestName } from '../errors.ts';

/**
 * Checks that a given list of class names is that of the data, in any order, and returns it: the order of the list is the order of
 * the label index. Throws `LABELS_MISMATCH` with the nearest names.
 */
export function matchLabels(given: readonly string[], found: readonly string[], what: string): readonly string[] {
  const twice = given.find((name, i) => given.indexOf(name) !== i);
  if (twice !== undefined) {
    throw new AlambicError('LABELS_MISMATCH', `expected every class once in \`labels\`, got "${twice}" twice`);
  }
  const missing = given.filter((name) => !found.includes(name));
  const extra = found.filter((name) => !given.includes(name));
  if (missing.length === 0 && extra.length === 0) return given;
  const parts = [
    ...missing.map((name) => {
      const near = nearestName(name, extra.length > 0 ? extra : found);
      return `no "${name}"${near === undefined ? '' : ` (did you mean "${near}"?)`}`;
    }),
    ...extra.map((name) => `"${name}", which the list lacks`),
  ];
  throw new AlambicError(
    'LABELS_MISMATCH',
    `expected the ${given.length} classes of \`labels\` in ${what}, got ${parts.slice(0, 8).join('; ')}` +
      (parts.length > 8 ? `; and ${parts.length - 8} more` : ''),
    {
      hint: 'The list and the data must name the same classes; an empty folder keeps the place of a class without images.',
    },
  );
}
