import { AlambicError } from '../errors.ts';

/** A value of a recipe with the place it was written at: `recipe.yaml:12:5`, or `--set seed=2`. */
export type Located = LocatedScalar | LocatedMap | LocatedList;

export interface LocatedScalar {
  readonly kind: 'scalar';
  readonly at: string;
  readonly value: string | number | boolean | null;
}

export interface LocatedMap {
  readonly kind: 'map';
  readonly at: string;
  /** Values by key, each with the place of the key. */
  readonly entries: ReadonlyMap<string, { readonly at: string; readonly node: Located }>;
}

export interface LocatedList {
  readonly kind: 'list';
  readonly at: string;
  readonly items: readonly Located[];
}

/** The plain value. A key whose value is null is left out: null takes a key of a base recipe away. */
export function toPlain(node: Located): unknown {
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'list') return node.items.map(toPlain);
  const plain: Record<string, unknown> = {};
  for (const [key, { node: child }] of node.entries) {
    if (child.kind === 'scalar' && child.value === null) continue;
    // A key such as __proto__ must stay a key.
    Object.defineProperty(plain, key, { value: toPlain(child), enumerable: true, writable: true, configurable: true });
  }
  return plain;
}

/** Where the value (or, with `key`, its key) at a path was written; the nearest place above it where the path ends early. */
export function placeOf(root: Located, path: readonly (string | number)[], which: 'value' | 'key' = 'value'): string {
  let at = root.at;
  let node: Located = root;
  for (const [depth, part] of path.entries()) {
    if (node.kind === 'map') {
      const entry = node.entries.get(String(part));
      if (entry === undefined) return at;
      at = which === 'key' && depth === path.length - 1 ? entry.at : entry.node.at;
      node = entry.node;
    } else if (node.kind === 'list') {
      const item: Located | undefined = node.items[Number(part)];
      if (item === undefined) return at;
      at = item.at;
      node = item;
    } else return at;
  }
  return at;
}

/** The name by which an entry of a list can be addressed: its `name`, else its `use`, else its text. */
export function entryName(node: Located): string | undefined {
  if (node.kind === 'scalar') return typeof node.value === 'string' ? node.value : undefined;
  if (node.kind === 'list') return undefined;
  for (const key of ['name', 'use']) {
    const child = node.entries.get(key)?.node;
    if (child?.kind === 'scalar' && typeof child.value === 'string') return child.value;
  }
  return undefined;
}

/** A map node from pairs. */
export function mapNode(at: string, entries: Iterable<readonly [string, { at: string; node: Located }]>): LocatedMap {
  return { kind: 'map', at, entries: new Map(entries) };
}

/** Several errors of one recipe, to be shown at once. */
export class RecipeError extends AlambicError {
  readonly problems: readonly AlambicError[];

  constructor(problems: readonly AlambicError[]) {
    const lines = problems.map(({ at, message, hint }) => {
      const place = at === undefined ? '' : `${at}: `;
      return `  ${place}${message}${hint === undefined ? '' : ` (${hint})`}`;
    });
    super('RECIPE_INVALID', `expected a valid recipe, found ${problems.length} problems:\n${lines.join('\n')}`, {
      hint: 'Correct them, then run `alambic check` on the recipe.',
    });
    this.name = 'RecipeError';
    this.problems = problems;
  }
}

/** Throws the error where there is one, and one error that holds all where there are several. */
export function throwProblems(problems: readonly AlambicError[]): void {
  if (problems.length === 1) throw problems[0];
  if (problems.length > 1) throw new RecipeError(problems);
}
