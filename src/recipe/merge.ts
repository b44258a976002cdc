import { AlambicError, unknownName } from '../errors.ts';
import { entryName, type Located, type LocatedList, type LocatedMap, mapNode } from './located.ts';

/**
 * `over` laid upon `base`: maps are merged key by key, everything else is replaced. Two special cases make bases useful:
 *
 * - a map with another `use` replaces the base's map whole: the options of one plugin are not those of another;
 * - a map over a list changes the list's entries, addressed by `name`, by `use` or by number: `stages: { student: { epochs: 3 } }`.
 *
 * Every value keeps the place it was written at. Throws `RECIPE_UNKNOWN_ENTRY` where a list has no such entry.
 */
export function mergeRecipes(base: Located, over: Located): Located {
  if (over.kind !== 'map') return over;
  if (base.kind === 'list') return patchList(base, over);
  if (base.kind !== 'map' || usesAnother(base, over)) return over;
  const entries = new Map(base.entries);
  for (const [key, entry] of over.entries) {
    const below = entries.get(key);
    entries.set(key, below === undefined ? entry : { at: entry.at, node: mergeRecipes(below.node, entry.node) });
  }
  return { kind: 'map', at: over.at, entries };
}

function usesAnother(base: LocatedMap, over: LocatedMap): boolean {
  const name = (map: LocatedMap) => {
    const node = map.entries.get('use')?.node;
    return node?.kind === 'scalar' ? node.value : undefined;
  };
  return name(over) !== undefined && name(over) !== name(base);
}

function patchList(list: LocatedList, over: LocatedMap): LocatedList {
  const items = [...list.items];
  for (const [key, { at, node }] of over.entries) {
    const index = findEntry(list, key, at);
    items[index] = mergeRecipes(spellOut(items[index]!), node);
  }
  return { ...list, items };
}

/** An entry written as a plain name, as the map it stands for. */
export function spellOut(entry: Located): Located {
  if (entry.kind !== 'scalar' || typeof entry.value !== 'string') return entry;
  return mapNode(entry.at, [['use', { at: entry.at, node: entry }]]);
}

/** Index of the entry with that name or number. Throws `RECIPE_UNKNOWN_ENTRY` with the nearest name. */
export function findEntry(list: LocatedList, key: string, at: string): number {
  const names = list.items.map(entryName);
  const found = names.flatMap((name, i) => (name === key ? [i] : []));
  if (found.length === 1) return found[0]!;
  if (found.length > 1) {
    throw new AlambicError('RECIPE_UNKNOWN_ENTRY', `expected one entry named "${key}", the list has ${found.length}`, {
      hint: `Say which by its number: ${found.map((i) => `[${i}]`).join(' or ')}.`,
      at,
    });
  }
  const index = /^\d+$/.test(key) ? Number(key) : -1;
  if (index >= 0 && index < list.items.length) return index;
  if (index >= 0) {
    throw new AlambicError(
      'RECIPE_UNKNOWN_ENTRY',
      `expected a number below ${list.items.length}, the length of the list, got ${key}`,
      {
        hint: 'Entries are counted from 0.',
        at,
      },
    );
  }
  throw unknownName(
    'RECIPE_UNKNOWN_ENTRY',
    'entry',
    key,
    names.filter((name) => name !== undefined),
    { at },
  );
}
