import { z } from 'zod';
import { createHost } from '../plugin-host/builtins.ts';
import { PLUGIN_KINDS, type PluginKind } from '../plugin-host/contract.ts';
import { describeSchema, type JsonSchema } from '../plugin-host/describe-options.ts';
import type { PluginHost } from '../plugin-host/host.ts';
import { describedRecipe } from './described.ts';
import { runGenerator } from './generated-file.ts';
import { MODEL_KEYS } from './schema.ts';

/** Where the committed schema lies. */
export const SCHEMA_FILE = new URL('../../schema/recipe.schema.json', import.meta.url);

/**
 * JSON Schema (draft 7, what editors know best) of a recipe with the plugins of a host. Names of other plugins are let through, since a
 * recipe may bring its own; `alambic check` is strict about them.
 */
export function recipeJsonSchema(host: PluginHost): JsonSchema {
  const used = new Set<PluginKind>();
  const recipe = withReferences(describeSchema(describedRecipe(), 'draft-7'), used) as Record<string, unknown>;
  const definitions: Record<string, unknown> = {};
  // Options of a plugin may use further kinds, so the set grows while it is gone through.
  for (const kind of used) definitions[kind] = usesOf(host, kind, used);
  const { $schema, required, properties, ...rest } = recipe as { properties: Record<string, unknown> } & Record<
    string,
    unknown
  >;
  const { stages, ...keys } = properties;
  const sorted = PLUGIN_KINDS.filter((kind) => used.has(kind)).map((kind) => [kind, definitions[kind]]);
  return {
    $schema,
    title: 'alambic recipe',
    ...rest,
    // A recipe that extends another one may leave out everything, and may change stages by name.
    anyOf: [{ required: ['extends'] }, { required }],
    properties: { ...keys, stages: { anyOf: [stages, { type: 'object', additionalProperties: { type: 'object' } }] } },
    definitions: Object.fromEntries(sorted),
  } as unknown as JsonSchema;
}

/** What may be written for a plugin of a kind: the name of one without required options, or a map of its options. */
function usesOf(host: PluginHost, kind: PluginKind, used: Set<PluginKind>): unknown {
  const plugins = host.list(kind).map(({ plugin }) => {
    const schema = withReferences(describeSchema(plugin.options, 'draft-7'), used) as JsonSchema;
    return {
      name: plugin.name,
      description: plugin.description,
      properties: schema.properties ?? {},
      required: schema.required ?? [],
    };
  });
  const names = plugins.map(({ name }) => name);
  const extra = kind === 'model' ? (describeSchema(z.object(MODEL_KEYS), 'draft-7').properties ?? {}) : {};
  const short = plugins.filter(({ required }) => required.length === 0);
  // A pattern rather than `not`: more tools understand it.
  const other = { type: 'string', pattern: `^(?!(?:${names.join('|')})$)` };
  return {
    anyOf: [
      ...(short.length === 0 ? [] : [{ type: 'string', enum: short.map(({ name }) => name) }]),
      ...plugins.map(({ name, description, properties, required }) => ({
        type: 'object',
        ...(description === undefined ? {} : { description }),
        properties: { use: { const: name }, ...properties, ...extra },
        required: ['use', ...required],
        additionalProperties: false,
      })),
      { ...other, description: `name of a ${kind} from the recipe's plugins` },
      { type: 'object', properties: { use: other }, required: ['use'] },
    ],
  };
}

/** Marks of plugin kinds as references to their definitions. */
function withReferences(node: unknown, used: Set<PluginKind>): unknown {
  if (Array.isArray(node)) return node.map((item) => withReferences(item, used));
  if (typeof node !== 'object' || node === null) return node;
  const { pluginKind, ...rest } = node as Record<string, unknown>;
  const mapped = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, withReferences(value, used)]));
  if (typeof pluginKind !== 'string') return mapped;
  used.add(pluginKind as PluginKind);
  // Beside a $ref, draft 7 ignores everything else: description and default need the allOf.
  const reference = { $ref: `#/definitions/${pluginKind}` };
  return Object.keys(mapped).length === 0 ? reference : { ...mapped, allOf: [reference] };
}

/** Text of the committed file. */
export function recipeSchemaText(): string {
  return `${JSON.stringify(recipeJsonSchema(createHost()), null, 2)}\n`;
}

if (process.argv[1] === import.meta.filename) runGenerator(SCHEMA_FILE, recipeSchemaText, process.argv.slice(2));
