import { z } from 'zod';
import type { PluginKind } from './contract.ts';
import type { PluginUse } from './tokens.ts';

/** A use of a plugin in a recipe: its name and its options side by side. */
export interface Use {
  readonly use: string;
  readonly [option: string]: unknown;
}

/** The long form of a use. */
export function expandUse(use: PluginUse): Use {
  return typeof use === 'string' ? { use } : use;
}

/** The options of a use, without `use`. */
export function optionsOf(use: PluginUse): Record<string, unknown> {
  const { use: _, ...options } = expandUse(use);
  return options;
}

/**
 * Schema of an option that is itself a plugin, for instance the loss inside a strategy. The host checks name and options of the inner
 * plugin together with the outer ones; the implementation makes it by `create('loss', options.loss)` (`TOKEN.Create`).
 *
 * @example
 * const options = z.strictObject({ loss: useOf('loss').optional().describe('loss between the logits') });
 */
export function useOf(kind: PluginKind) {
  return z
    .union([z.string(), z.looseObject({ use: z.string() })])
    .transform((use): Use => expandUse(use))
    .meta({ pluginKind: kind });
}

/** Kind of plugin that an option stands for, where it was made by `useOf`. */
export function pluginKindOf(schema: z.core.$ZodType): PluginKind | undefined {
  const meta = z.globalRegistry.get(schema) as { pluginKind?: PluginKind } | undefined;
  return meta?.pluginKind;
}

/** A schema's own definition, as far as walking through it needs it. */
interface Definition {
  readonly type: string;
  readonly shape?: Record<string, z.core.$ZodType>;
  readonly innerType?: z.core.$ZodType;
  readonly element?: z.core.$ZodType;
  readonly valueType?: z.core.$ZodType;
  readonly options?: readonly z.core.$ZodType[];
}

/** The schema with every option made by `useOf` replaced by what `schemaOf` gives for its kind; checks and descriptions stay. */
export function bindUses<S extends z.core.$ZodType>(schema: S, schemaOf: (kind: PluginKind) => z.core.$ZodType): S {
  return bind(schema, schemaOf) as S;
}

function bind(schema: z.core.$ZodType, schemaOf: (kind: PluginKind) => z.core.$ZodType): z.core.$ZodType {
  const def = schema._zod.def as unknown as Definition;
  const isWrapper = def.innerType !== undefined;
  const kind = isWrapper ? undefined : pluginKindOf(schema);
  if (kind !== undefined) return withDescription(schemaOf(kind), schema);
  const changes: Record<string, unknown> = {};
  const visit = (key: string, child: z.core.$ZodType | undefined) => {
    if (child === undefined) return;
    const bound = bind(child, schemaOf);
    if (bound !== child) changes[key] = bound;
  };
  visit('innerType', def.innerType);
  visit('element', def.element);
  visit('valueType', def.valueType);
  if (def.options !== undefined) {
    const bound = def.options.map((option) => bind(option, schemaOf));
    if (bound.some((option, i) => option !== def.options![i])) changes['options'] = bound;
  }
  if (def.shape !== undefined) {
    const entries = Object.entries(def.shape).map(([key, child]) => [key, bind(child, schemaOf)] as const);
    if (entries.some(([key, child]) => child !== def.shape![key])) changes['shape'] = Object.fromEntries(entries);
  }
  if (Object.keys(changes).length === 0) return schema;
  return z.core.clone(schema, { ...schema._zod.def, ...changes } as typeof schema._zod.def, { parent: true });
}

function withDescription(bound: z.core.$ZodType, original: z.core.$ZodType): z.core.$ZodType {
  const description = z.globalRegistry.get(original)?.description;
  return description === undefined ? bound : (bound as z.ZodType).describe(description);
}
