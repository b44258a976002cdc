import { readdir, readFile } from 'node:fs/promises';
import { basename, dirname, relative } from 'node:path';
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import { AlambicError, nearestName } from '../errors.ts';
import { type Located, mapNode, throwProblems } from './located.ts';

/** A recipe is small; more nodes than this come from aliases of aliases. */
const MOST_NODES = 20_000;

/** A path as it is shown in messages: relative to the working folder where it lies below it. */
export function showFile(file: string): string {
  const short = relative(process.cwd(), file);
  return short === '' || short.startsWith('..') ? file : short;
}

/** Text of a recipe. Throws `RECIPE_NOT_FOUND` with the nearest file name of that folder, `RECIPE_UNREADABLE`. */
export async function readRecipeText(file: string, at?: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const place = at === undefined ? {} : { at };
    if (code !== 'ENOENT' && code !== 'ENOTDIR') {
      throw new AlambicError('RECIPE_UNREADABLE', `expected a recipe in ${showFile(file)}: ${message}`, {
        hint: code === 'EISDIR' ? 'Give the YAML file, not its folder.' : 'Check the rights of the file.',
        cause: error,
        ...place,
      });
    }
    const folder = dirname(file);
    const names = await readdir(folder).catch(() => undefined);
    const near = names === undefined ? undefined : nearestName(basename(file), names);
    throw new AlambicError(
      'RECIPE_NOT_FOUND',
      `no recipe at ${showFile(file)}${near === undefined ? '' : `: did you mean "${near}"?`}`,
      {
        hint:
          names === undefined
            ? `The folder ${showFile(folder)} does not exist.`
            : `Recipes in ${showFile(folder)}: ${names.filter((name) => /\.ya?ml$/.test(name)).join(', ') || 'none'}.`,
        cause: error,
        ...place,
      },
    );
  }
}

/**
 * Parses YAML 1.2 into values with their places. Data only: tags are refused, and aliases may not blow a small file up.
 * Throws `RECIPE_SYNTAX`, all errors at once.
 *
 * @param place gives the place of a line and column, from 1
 */
export function parseYaml(text: string, place: (line: number, column: number) => string): Located {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, version: '1.2', prettyErrors: false });
  const at = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return place(Math.max(1, line), Math.max(1, col));
  };
  throwProblems(
    [...document.errors, ...document.warnings].map(
      ({ code, message, pos }) =>
        new AlambicError('RECIPE_SYNTAX', message, {
          at: at(pos[0]),
          hint:
            code === 'TAG_RESOLVE_FAILED'
              ? 'A recipe is data only: leave the tag out.'
              : 'See the YAML just before this place.',
        }),
    ),
  );
  let count = 0;
  const convert = (node: Node | null | undefined, fallback: string, above: readonly Node[]): Located => {
    if (node === null || node === undefined) return { kind: 'scalar', at: fallback, value: null };
    const here = node.range === undefined || node.range === null ? fallback : at(node.range[0]);
    if (++count > MOST_NODES || above.length > 100) {
      throw new AlambicError('RECIPE_SYNTAX', `expected at most ${MOST_NODES} values, aliases written out`, {
        at: here,
        hint: 'Use fewer aliases.',
      });
    }
    if (isAlias(node)) {
      const target = node.resolve(document);
      if (target === undefined || above.includes(target)) {
        throw new AlambicError('RECIPE_SYNTAX', `the alias *${node.source} stands for itself or for nothing`, {
          at: here,
        });
      }
      return convert(target, here, above);
    }
    if (isScalar(node)) {
      const { value } = node;
      if (value === null || ['string', 'number', 'boolean'].includes(typeof value)) {
        return { kind: 'scalar', at: here, value: value as string | number | boolean | null };
      }
      throw new AlambicError('RECIPE_SYNTAX', `expected text, a number, true or false, got ${String(value)}`, {
        at: here,
      });
    }
    const inside = [...above, node];
    if (isSeq(node)) {
      return { kind: 'list', at: here, items: node.items.map((item) => convert(item as Node | null, here, inside)) };
    }
    if (!isMap(node)) throw new AlambicError('RECIPE_SYNTAX', 'expected a map, a list or a value', { at: here });
    return mapNode(
      here,
      node.items.map((pair) => {
        const key = pair.key as Node;
        if (!isScalar(key)) throw new AlambicError('RECIPE_SYNTAX', 'expected a plain key', { at: here });
        const keyAt = key.range === undefined || key.range === null ? here : at(key.range[0]);
        return [String(key.value), { at: keyAt, node: convert(pair.value as Node | null, keyAt, inside) }] as const;
      }),
    );
  };
  return convert(document.contents as Node | null, place(1, 1), []);
}
