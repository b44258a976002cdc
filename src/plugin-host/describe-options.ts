import { z } from 'zod';
import type { Plugin } from './contract.ts';
import { pluginKindOf } from './use.ts';

/** One option of a plugin, or one key of a recipe, in words. */
export interface OptionRow {
  readonly name: string;
  /** `whole number >= 1`, `one of cpu, auto`, `list of text`. */
  readonly type: string;
  readonly required: boolean;
  readonly default: unknown;
  readonly description: string;
}

/** The part of JSON Schema that zod writes for options. */
export interface JsonSchema {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly items?: JsonSchema;
  readonly prefixItems?: readonly JsonSchema[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: JsonSchema | boolean;
  readonly required?: readonly string[];
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly exclusiveMaximum?: number;
  readonly default?: unknown;
  readonly description?: string;
  /** Set here: the value is a use of a plugin of that kind. */
  readonly pluginKind?: string;
}

/** The options of a plugin as JSON Schema; a nested plugin is marked by `pluginKind`. */
export function optionsJsonSchema(plugin: Plugin): JsonSchema {
  return describeSchema(plugin.options);
}

/** A schema as JSON Schema of what may be written. */
export function describeSchema(
  schema: z.core.$ZodType,
  target: 'draft-2020-12' | 'draft-7' = 'draft-2020-12',
): JsonSchema {
  return z.toJSONSchema(schema, {
    io: 'input',
    target,
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      const kind = pluginKindOf(zodSchema);
      if (kind === undefined) return;
      for (const key of ['anyOf', 'type', 'properties'] as const) delete jsonSchema[key];
      jsonSchema['pluginKind'] = kind;
    },
  }) as JsonSchema;
}

/** The options of a plugin, the required ones first. */
export function describeOptions(plugin: Plugin): OptionRow[] {
  return describeProperties(optionsJsonSchema(plugin));
}

export function describeProperties({ properties = {}, required = [] }: JsonSchema): OptionRow[] {
  const rows = Object.entries(properties).map(([name, property]) => ({
    name,
    type: describeType(property),
    required: required.includes(name) && property.default === undefined,
    default: property.default,
    description: property.description ?? '',
  }));
  return [...rows.filter((row) => row.required), ...rows.filter((row) => !row.required)];
}

const NAMES: Readonly<Record<string, string>> = {
  integer: 'whole number',
  number: 'number',
  string: 'text',
  boolean: 'true or false',
  null: 'nothing',
};

/** The type of a value in words. */
export function describeType(schema: JsonSchema): string {
  if (schema.pluginKind !== undefined) return `${schema.pluginKind} plugin`;
  if (schema.const !== undefined) return String(schema.const);
  if (schema.enum !== undefined) return `one of ${schema.enum.map(String).join(', ')}`;
  const branches = schema.anyOf ?? schema.oneOf;
  if (branches !== undefined) return [...new Set(branches.map(describeType))].join(' or ');
  if (schema.type === 'array') {
    if (schema.prefixItems !== undefined) return `[${schema.prefixItems.map(describeType).join(', ')}]`;
    return `list of ${schema.items === undefined ? 'anything' : describeType(schema.items)}`;
  }
  if (schema.type === 'object') {
    if (schema.properties !== undefined && Object.keys(schema.properties).length > 0) {
      return `{ ${Object.keys(schema.properties).join(', ')} }`;
    }
    return typeof schema.additionalProperties === 'object'
      ? `map of ${describeType(schema.additionalProperties)}`
      : 'map';
  }
  if (schema.type === undefined) return 'anything';
  return `${NAMES[schema.type] ?? schema.type}${bounds(schema)}`;
}

function bounds({ type, minimum, exclusiveMinimum, maximum, exclusiveMaximum }: JsonSchema): string {
  // zod bounds every integer by what a double holds exactly; that says nothing to a reader.
  const isReal = (value: number | undefined): value is number =>
    value !== undefined && Math.abs(value) < Number.MAX_SAFE_INTEGER;
  // Of whole numbers, `>= 1` reads better than `> 0`.
  if (type === 'integer' && isReal(exclusiveMinimum))
    return bounds({ minimum: exclusiveMinimum + 1, ...(maximum === undefined ? {} : { maximum }) });
  const low = isReal(exclusiveMinimum) ? `> ${exclusiveMinimum}` : isReal(minimum) ? `>= ${minimum}` : undefined;
  const high = isReal(exclusiveMaximum) ? `< ${exclusiveMaximum}` : isReal(maximum) ? `<= ${maximum}` : undefined;
  const parts = [low, high].filter((part) => part !== undefined);
  return parts.length === 0 ? '' : ` ${parts.join(' and ')}`;
}
