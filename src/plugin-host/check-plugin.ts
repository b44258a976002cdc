import type { z } from 'zod';
import { AlambicError, unknownName } from '../errors.ts';
import { API_VERSION, PLUGIN_KINDS, type Plugin, type PluginKind } from './contract.ts';
import { showValue } from './explain.ts';

const NAME = /^[a-z][a-z0-9]*([-_][a-z0-9]+)*$/;
const MEMBERS = ['name', 'kind', 'apiVersion', 'description', 'options', 'implementation'];

/** Whether a name may be that of a plugin: lower case, digits, single dashes or underscores. */
export function isPluginName(name: string): boolean {
  return NAME.test(name);
}

export function isPluginKind(kind: unknown): kind is PluginKind {
  return (PLUGIN_KINDS as readonly unknown[]).includes(kind);
}

/**
 * Checks the form of a plugin, whatever it is made of. Throws `PLUGIN_SHAPE`, `PLUGIN_NAME`, `PLUGIN_KIND`, `PLUGIN_API_VERSION`,
 * `PLUGIN_OPTIONS` or `PLUGIN_IMPLEMENTATION`.
 *
 * @param origin where it comes from, for the message: a file or `built in`
 */
export function checkPlugin(value: unknown, origin: string): Plugin {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new AlambicError('PLUGIN_SHAPE', `expected a plugin made by definePlugin({ … }), got ${showValue(value)}`, {
      hint: 'Write `export default definePlugin({ name, kind, apiVersion, options, implementation })`.',
      at: origin,
    });
  }
  const plugin = value as Partial<Record<keyof Plugin, unknown>>;
  for (const member of Object.keys(plugin)) {
    if (!MEMBERS.includes(member))
      throw unknownName('PLUGIN_SHAPE', 'member of a plugin', member, MEMBERS, { at: origin });
  }
  const { name, kind } = plugin;
  if (typeof name !== 'string' || !isPluginName(name)) {
    throw new AlambicError('PLUGIN_NAME', `expected a name such as "my-loss", got ${showValue(name)}`, {
      hint: 'Lower-case letters, digits and single dashes or underscores, a letter first.',
      at: origin,
    });
  }
  if (!isPluginKind(kind)) {
    if (typeof kind === 'string')
      throw unknownName('PLUGIN_KIND', 'kind of plugin', kind, PLUGIN_KINDS, { at: origin, plugin: name });
    throw new AlambicError('PLUGIN_KIND', `expected a kind of plugin, got ${showValue(kind)}`, {
      hint: `Kinds: ${PLUGIN_KINDS.join(', ')}.`,
      at: origin,
      plugin: name,
    });
  }
  checkVersion(plugin.apiVersion, name, origin);
  const { description } = plugin;
  if (description !== undefined && typeof description !== 'string') {
    throw new AlambicError('PLUGIN_SHAPE', `expected the description to be text, got ${showValue(description)}`, {
      hint: 'One sentence for `alambic plugins`.',
      at: origin,
      plugin: name,
    });
  }
  checkOptions(plugin.options, name, origin);
  checkImplementation(plugin.implementation, name, origin);
  return value as Plugin;
}

function checkVersion(version: unknown, plugin: string, origin: string): void {
  if (version === API_VERSION) return;
  const isNewer = typeof version === 'number' && version > API_VERSION;
  throw new AlambicError(
    'PLUGIN_API_VERSION',
    typeof version === 'number'
      ? `the plugin was written for version ${version} of the plugin contract, this alambic has version ${API_VERSION}`
      : `expected apiVersion to be ${API_VERSION}, got ${showValue(version)}`,
    {
      hint: isNewer
        ? 'Update alambic, or take an older version of the plugin.'
        : `Set \`apiVersion: ${API_VERSION}\` after checking the plugin against docs/plugins.md.`,
      at: origin,
      plugin,
    },
  );
}

function checkOptions(options: unknown, plugin: string, origin: string): void {
  const fail = (got: string) => {
    throw new AlambicError('PLUGIN_OPTIONS', `expected the options to be a strict zod object, got ${got}`, {
      hint: 'Write `options: z.strictObject({ … })` with `z` from "alambic/plugin"; `z.strictObject({})` where there are none.',
      at: origin,
      plugin,
    });
  };
  if (typeof options !== 'object' || options === null) fail(showValue(options));
  const internals = (options as { _zod?: { def?: { type?: string; shape?: object; catchall?: z.core.$ZodType } } })
    ._zod;
  if (internals?.def === undefined) fail('_def' in (options as object) ? 'a schema of zod 3' : 'something else');
  const { type, shape, catchall } = internals!.def!;
  if (type !== 'object' || shape === undefined) fail(`z.${type}(…)`);
  // Without a catch-all that refuses, an option with a typing error would be dropped without a word.
  if (catchall?._zod.def.type !== 'never') fail('an object that lets unknown keys pass');
  if ('use' in shape!) fail('an option named "use", which stands for the plugin itself');
}

function checkImplementation(implementation: unknown, plugin: string, origin: string): void {
  const isClass =
    typeof implementation === 'function' && /^class\b/.test(Function.prototype.toString.call(implementation));
  if (isClass) return;
  throw new AlambicError(
    'PLUGIN_IMPLEMENTATION',
    `expected the implementation to be a class, got ${typeof implementation === 'object' && implementation !== null ? 'an instance' : showValue(implementation)}`,
    { hint: 'Give the class itself, not `new Class()`: the host makes one for each use.', at: origin, plugin },
  );
}
