import { AlambicError } from '../errors.ts';
import { type Located, mapNode } from './located.ts';
import { findEntry, spellOut } from './merge.ts';
import { parseYaml } from './read-yaml.ts';

/**
 * Applies one `--set path=value` to a recipe. A path is made of keys, and of names or numbers of list entries:
 * `stages.student.optimizer.rate=0.1`, `stages[0].epochs=3`, `data.augment.flip.rate=0`. The value is YAML; an empty one takes the key away.
 *
 * Throws `RECIPE_SET`, and `RECIPE_UNKNOWN_ENTRY` for a list entry that is not there; an unknown key is found when the recipe is checked.
 */
export function applySetting(root: Located, setting: string): Located {
  const at = `--set ${setting}`;
  const equals = setting.indexOf('=');
  const path = equals < 0 ? undefined : parsePath(setting.slice(0, equals).trim());
  if (path === undefined) {
    throw new AlambicError('RECIPE_SET', `expected --set path=value, got "${setting}"`, {
      hint: 'For instance `--set seed=2` or `--set stages.student.optimizer.rate=0.1`.',
      at,
    });
  }
  const value = parseYaml(setting.slice(equals + 1), () => at);
  return setAt(root, path, value, at, []);
}

/** Parts of `a.b[0].c`, or undefined where it is none. */
function parsePath(text: string): string[] | undefined {
  if (!/^[^.[\]\s]+(\.[^.[\]\s]+|\[\d+\])*$/.test(text)) return undefined;
  return text.split(/[.[\]]+/).filter((part) => part !== '');
}

function setAt(node: Located, path: readonly string[], value: Located, at: string, done: readonly string[]): Located {
  const [part, ...rest] = path;
  if (part === undefined) return value;
  if (node.kind === 'list') {
    const index = findEntry(node, part, at);
    const items = [...node.items];
    const entry = items[index]!;
    items[index] = setAt(rest.length === 0 ? entry : spellOut(entry), rest, value, at, [...done, part]);
    return { ...node, items };
  }
  if (node.kind === 'scalar' && node.value !== null) {
    throw new AlambicError(
      'RECIPE_SET',
      `expected "${done.join('.')}" to be a map or a list, it is ${JSON.stringify(node.value)}`,
      {
        hint: `Set the whole of it: --set '${done.join('.')}={ use: ${node.value}, ${part}: … }'.`,
        at,
      },
    );
  }
  const entries = new Map(node.kind === 'map' ? node.entries : []);
  const below = entries.get(part)?.node ?? mapNode(at, []);
  entries.set(part, { at, node: setAt(below, rest, value, at, [...done, part]) });
  return { kind: 'map', at: node.at, entries };
}
