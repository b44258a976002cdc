import { basename, dirname, isAbsolute, relative, resolve } from 'node:path';
import { stringify } from 'yaml';
import { z } from 'zod';
import { AlambicError } from '../errors.ts';
import type { PluginKind } from '../plugin-host/contract.ts';
import { isPath, loadPlugin } from '../plugin-host/discovery.ts';
import { explain, problemsOf, showPath } from '../plugin-host/explain.ts';
import { type PluginHost, runSchema } from '../plugin-host/host.ts';
import type { Use } from '../plugin-host/use.ts';
import { checkReferences } from './check-references.ts';
import { type Located, type LocatedMap, mapNode, placeOf, throwProblems, toPlain } from './located.ts';
import { mergeRecipes } from './merge.ts';
import { parseYaml, readRecipeText, showFile } from './read-yaml.ts';
import { MODEL_KEYS, type ModelEntry, type Recipe, recipeSchema } from './schema.ts';
import { applySetting } from './set.ts';

export interface LoadOptions {
  /** Changes as on the command line, `path=value`, in order. */
  readonly set?: readonly string[];
}

export interface LoadedRecipe {
  readonly recipe: Recipe;
  /** The host with the recipe's own plugins besides. */
  readonly host: PluginHost;
  /** Absolute paths of the files it was made of: the recipe, then what it extends. */
  readonly files: readonly string[];
  /** Where the value at a path was written, for errors found later: `place(['stages', 0, 'model'])` -> `recipe.yaml:12:5`. */
  place(path: readonly (string | number)[]): string;
}

/**
 * Loads a recipe: YAML, `extends`, `--set`, plugins, strict schema, references. All problems are reported at once, each with
 * `file:line:column` and the nearest known name.
 *
 * Throws `RECIPE_*`, `UNKNOWN_*` and `PLUGIN_*` errors; a `RecipeError` holds several.
 *
 * @example
 * const { recipe, host } = await loadRecipe('recipes/digits.yaml', { set: ['seed=2'] }, createHost());
 */
export async function loadRecipe(path: string, options: LoadOptions, host: PluginHost): Promise<LoadedRecipe> {
  const file = resolve(path);
  const files: string[] = [];
  let root = await readWithBases(file, [], files);
  for (const setting of options.set ?? []) root = applySetting(root, setting);
  if (root.kind !== 'map') {
    throw new AlambicError('RECIPE_VALUE', 'expected a map with `data`, `models` and `stages` at the top of a recipe', {
      at: root.at,
    });
  }
  return resolveRecipe(root, file, files, host);
}

/** The same for a recipe that is already data, for programs and tests; relative paths start from `baseFolder`. */
export async function parseRecipe(text: string, baseFolder: string, host: PluginHost): Promise<LoadedRecipe> {
  const root = parseYaml(text, (line, column) => `recipe:${line}:${column}`);
  if (root.kind !== 'map')
    throw new AlambicError('RECIPE_VALUE', 'expected a map at the top of a recipe', { at: root.at });
  return resolveRecipe(root, resolve(baseFolder, 'recipe.yaml'), [], host);
}

async function resolveRecipe(
  root: LocatedMap,
  file: string,
  files: readonly string[],
  base: PluginHost,
): Promise<LoadedRecipe> {
  const plain = toPlain(root) as Record<string, unknown>;
  const given = plain['baseFolder'];
  const baseFolder = typeof given === 'string' ? resolve(dirname(file), given) : dirname(file);
  const problems: AlambicError[] = [];
  const host = await withPlugins(base, root, baseFolder, problems);

  const result = recipeSchema((kind) => host.useSchema(kind) as z.ZodType<Use>, modelSchema(host)).safeParse(plain, {
    error: explain,
  });
  if (!result.success) {
    for (const { path, code, message, hint } of problemsOf(result.error.issues)) {
      const text = code === 'VALUE' ? `${showPath(path)}: ${message}` : message;
      problems.push(
        new AlambicError(code === 'UNKNOWN_PLUGIN' ? code : `RECIPE_${code}`, text, {
          ...(hint === undefined ? {} : { hint }),
          at: placeOf(root, path, code === 'UNKNOWN_KEY' ? 'key' : 'value'),
        }),
      );
    }
  }
  for (const { path, code, message, hint } of checkReferences(plain)) {
    problems.push(new AlambicError(code, message, { hint, at: placeOf(root, path) }));
  }
  throwProblems(inOrder(problems));
  const { extends: _, name: ownName, baseFolder: __, ...parsed } = result.data!;
  const name = ownName ?? basename(file).replace(/\.ya?ml$/, '');
  const plugins = parsed.plugins.map((spec) => specFrom(spec, baseFolder));
  const recipe: Recipe = deepFreeze({ name, baseFolder, ...parsed, plugins });
  return { recipe, host, files, place: (path) => placeOf(root, path) };
}

/** Reads a recipe and lays it on those it extends; a plugin's path is made absolute, since it is relative to the file it stands in. */
async function readWithBases(file: string, heirs: readonly string[], files: string[], at?: string): Promise<Located> {
  if (heirs.includes(file)) {
    const circle = [...heirs.slice(heirs.indexOf(file)), file].map((name) => basename(name)).join(' -> ');
    throw new AlambicError(
      'RECIPE_EXTENDS',
      `expected recipes that do not extend each other in a circle, got ${circle}`,
      {
        hint: 'Move what they share to a third recipe.',
        ...(at === undefined ? {} : { at }),
      },
    );
  }
  const text = await readRecipeText(file, at);
  files.push(file);
  const shown = showFile(file);
  const root = parseYaml(text, (line, column) => `${shown}:${line}:${column}`);
  if (root.kind !== 'map') return root;
  const own = withAbsolutePlugins(root, dirname(file));
  const bases = own.entries.get('extends')?.node;
  const specs = bases === undefined ? [] : bases.kind === 'list' ? bases.items : [bases];
  let merged: Located | undefined;
  for (const spec of specs) {
    if (spec.kind !== 'scalar' || typeof spec.value !== 'string') {
      throw new AlambicError('RECIPE_VALUE', 'expected the path of a recipe, or a list of paths, under `extends`', {
        at: spec.at,
      });
    }
    const base = await readWithBases(resolve(dirname(file), spec.value), [...heirs, file], files, spec.at);
    merged = merged === undefined ? base : mergeRecipes(merged, base);
  }
  // Neither is handed down: each belongs to the file it stands in.
  const inherited = merged?.kind === 'map' ? without(merged, ['name', 'description', 'baseFolder']) : merged;
  const rest = without(own, ['extends']);
  return inherited === undefined ? rest : mergeRecipes(inherited, rest);
}

function without(map: LocatedMap, keys: readonly string[]): LocatedMap {
  return mapNode(
    map.at,
    [...map.entries].filter(([key]) => !keys.includes(key)),
  );
}

function withAbsolutePlugins(root: LocatedMap, folder: string): LocatedMap {
  const entry = root.entries.get('plugins');
  const given = root.entries.get('baseFolder')?.node;
  if (entry?.node.kind !== 'list') return root;
  const from = given?.kind === 'scalar' && typeof given.value === 'string' ? resolve(folder, given.value) : folder;
  const items = entry.node.items.map((item): Located => {
    if (item.kind !== 'scalar' || typeof item.value !== 'string' || !isPath(item.value)) return item;
    return item.value.startsWith('file:') ? item : { ...item, value: resolve(from, item.value) };
  });
  return mapNode(root.at, [...root.entries, ['plugins', { ...entry, node: { ...entry.node, items } }]]);
}

/** Problems by file, line and column, as one reads them. */
function inOrder(problems: readonly AlambicError[]): AlambicError[] {
  const place = (at = '') => /^(.*):(\d+):(\d+)$/.exec(at);
  return [...problems].sort((a, b) => {
    const x = place(a.at);
    const y = place(b.at);
    if (x === null || y === null || x[1] !== y[1]) return 0;
    return Number(x[2]) - Number(y[2]) || Number(x[3]) - Number(y[3]);
  });
}

/** A plugin's path as it is saved: relative to the base folder where it lies below it. */
function specFrom(spec: string, baseFolder: string): string {
  if (!isAbsolute(spec)) return spec;
  const short = relative(baseFolder, spec);
  return short.startsWith('..') ? spec : `./${short}`;
}

async function withPlugins(
  base: PluginHost,
  root: LocatedMap,
  baseFolder: string,
  problems: AlambicError[],
): Promise<PluginHost> {
  const host = base.fork();
  const node = root.entries.get('plugins')?.node;
  for (const item of node?.kind === 'list' ? node.items : []) {
    if (item.kind !== 'scalar' || typeof item.value !== 'string') continue;
    try {
      for (const { plugin, origin } of await loadPlugin(item.value, baseFolder)) host.register(plugin, origin);
    } catch (error) {
      if (!(error instanceof AlambicError)) throw error;
      problems.push(error.at === undefined ? error.with({ at: item.at }) : error);
    }
  }
  return host;
}

/** A model: a use of a model plugin, with the keys of a recipe's model beside its options. */
function modelSchema(host: PluginHost): z.ZodType<ModelEntry> {
  const use = host.useSchema('model' satisfies PluginKind);
  const keys = z.object(MODEL_KEYS);
  return z.transform((input: unknown, payload): ModelEntry => {
    const own: Record<string, unknown> = {};
    let rest = input;
    if (typeof input === 'object' && input !== null && !Array.isArray(input)) {
      rest = Object.fromEntries(Object.entries(input).filter(([key]) => !(key in MODEL_KEYS)));
      for (const key of Object.keys(MODEL_KEYS)) if (key in input) own[key] = (input as Record<string, unknown>)[key];
    }
    const results = [runSchema(use, rest), runSchema(keys, own)];
    payload.issues.push(...results.flatMap(({ issues }) => issues));
    return payload.issues.length > 0
      ? z.NEVER
      : (Object.assign({}, ...results.map(({ value }) => value)) as ModelEntry);
  }) as unknown as z.ZodType<ModelEntry>;
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const child of Object.values(value)) deepFreeze(child);
  return Object.freeze(value);
}

/** Text of a resolved recipe: every default written out. Loading it gives the same recipe again, wherever it is saved. */
export function saveResolved(recipe: Recipe): string {
  return stringify(recipe, { lineWidth: 0, aliasDuplicateObjects: false });
}
