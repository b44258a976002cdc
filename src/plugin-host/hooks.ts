import { AlambicError, editDistance, nearestName } from '../errors.ts';
import type { KindContracts, PluginKind } from './contract.ts';

/** Members of each kind's contract, as the host needs to know them at run time. */
export interface KindHooks {
  readonly required: readonly string[];
  readonly optional: readonly string[];
}

type HooksOf<K extends PluginKind> = {
  readonly required: readonly (keyof KindContracts[K] & string)[];
  readonly optional: readonly (keyof KindContracts[K] & string)[];
};

export const KIND_HOOKS: { readonly [K in PluginKind]: HooksOf<K> } = {
  model: { required: ['build'], optional: [] },
  source: { required: ['open'], optional: [] },
  transform: { required: ['outputShape', 'call'], optional: [] },
  view: { required: ['views', 'transforms'], optional: [] },
  loss: { required: ['call'], optional: ['check'] },
  strategy: { required: [], optional: ['check', 'modules', 'groups', 'terms', 'weights', 'update', 'advance'] },
  teachers: { required: ['combine'], optional: [] },
  optimizer: { required: ['baseRate', 'decayOf', 'init', 'update'], optional: [] },
  schedule: { required: ['factor'], optional: ['momentum'] },
  metric: { required: ['update', 'result'], optional: [] },
  callback: { required: ['on'], optional: ['close'] },
  logger: { required: ['on'], optional: ['close'] },
  exporter: { required: ['export'], optional: [] },
};

/** Names of the methods that an instance has, its own and those of its classes. */
function methodNames(instance: object): string[] {
  const names = new Set<string>();
  for (
    let at: object | null = instance;
    at !== null && at !== Object.prototype;
    at = Object.getPrototypeOf(at) as object | null
  ) {
    for (const [name, member] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (name !== 'constructor' && typeof member.value === 'function') names.add(name);
    }
  }
  return [...names];
}

/**
 * Checks that an instance has what its kind must have. Optional hooks make a misspelt one silent, so a method whose name is nearly that
 * of a missing hook is an error too. Throws `PLUGIN_IMPLEMENTATION`.
 */
export function checkHooks(instance: object, kind: PluginKind, plugin: string): void {
  const { required, optional } = KIND_HOOKS[kind];
  const methods = methodNames(instance);
  const helpers = methods.filter((name) => !isHook(name, kind));
  const missing = required.filter((name) => !(name in instance));
  if (missing.length > 0) {
    const near = nearestName(missing[0]!, helpers);
    const found = methods.length === 0 ? 'no method' : `the methods ${methods.join(', ')}`;
    throw new AlambicError(
      'PLUGIN_IMPLEMENTATION',
      `expected the implementation of a ${kind} to have ${required.join(' and ')}, found ${found}`,
      { hint: near === undefined ? `Add ${missing.join(' and ')}.` : `Rename "${near}" to "${missing[0]}".`, plugin },
    );
  }
  if (required.length === 0 && !optional.some((name) => name in instance)) {
    throw new AlambicError(
      'PLUGIN_IMPLEMENTATION',
      `expected the implementation of a ${kind} to have at least one hook, found none`,
      { hint: `Hooks of a ${kind}: ${optional.join(', ')}.`, plugin },
    );
  }
  for (const hook of optional.filter((name) => !(name in instance))) {
    const near = helpers.find((name) => editDistance(name.toLowerCase(), hook) <= 1);
    if (near === undefined) continue;
    throw new AlambicError(
      'PLUGIN_IMPLEMENTATION',
      `the method "${near}" is no hook of a ${kind}: did you mean "${hook}"?`,
      { hint: `Rename it, or make it private (#${near}) where it is a helper.`, plugin },
    );
  }
}

function isHook(name: string, kind: PluginKind): boolean {
  const hooks: KindHooks = KIND_HOOKS[kind];
  return hooks.required.includes(name) || hooks.optional.includes(name);
}

/** The error with the plugin and the hook it came from; the code of an `AlambicError` stays, others become `PLUGIN_HOOK`. */
export function attribute(error: unknown, plugin: string, hook: string): AlambicError {
  const where = `${plugin}, ${hook}`;
  if (error instanceof AlambicError) return error.plugin === undefined ? error.with({ plugin: where }) : error;
  const text = error instanceof Error ? error.message : String(error);
  return new AlambicError('PLUGIN_HOOK', `expected ${hook}() of the plugin to return, it threw: ${text}`, {
    hint: `Look at the cause below${error instanceof Error ? '' : '; throw an Error to get its line'}.`,
    plugin: where,
    cause: error,
  });
}

/**
 * Makes errors thrown in the plugin's methods tell where they came from. Each method becomes one of the instance's own that calls the
 * original with the same `this`: private fields and getters work as before, and a call costs one more function call.
 *
 * @param hooks methods to wrap; default: all of them
 */
export function wrapHooks<T extends object>(instance: T, plugin: string, hooks?: readonly string[]): T {
  if (!Object.isExtensible(instance)) return instance;
  for (const hook of methodNames(instance)) {
    if (hooks !== undefined && !hooks.includes(hook)) continue;
    const original = Reflect.get(instance, hook) as (...args: unknown[]) => unknown;
    const wrapped = function (this: unknown, ...args: unknown[]): unknown {
      let result: unknown;
      try {
        result = original.apply(this, args);
      } catch (error) {
        throw attribute(error, plugin, hook);
      }
      if (!(result instanceof Promise)) return result;
      return result.catch((error: unknown) => {
        throw attribute(error, plugin, hook);
      });
    };
    Object.defineProperty(instance, hook, { value: wrapped, configurable: true, writable: true, enumerable: false });
  }
  return instance;
}
