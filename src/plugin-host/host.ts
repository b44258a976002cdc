import type { Container } from 'inversify';
import { z } from 'zod';
import { AlambicError, unknownName } from '../errors.ts';
import { checkPlugin } from './check-plugin.ts';
import { createChildContainer, createRootContainer, type ScopeValues } from './container.ts';
import type { Constructor, KindContracts, Plugin, PluginKind } from './contract.ts';
import { explain, problemsOf, showPath, withHint } from './explain.ts';
import { attribute, checkHooks, KIND_HOOKS, wrapHooks } from './hooks.ts';
import { type CreatePlugin, type PluginUse, TOKEN } from './tokens.ts';
import { bindUses, expandUse, optionsOf, type Use } from './use.ts';

/** A plugin with the place it came from. */
export interface RegisteredPlugin<K extends PluginKind = PluginKind> {
  readonly plugin: Plugin<K>;
  /** `built in`, or the file. */
  readonly origin: string;
}

/** What a plugin's implementation may inject, or the container of the run or stage that has it. */
export interface UseContext extends ScopeValues {
  /** Container of the run or stage, from `host.openScope`. @default the root */
  readonly parent?: Container;
}

/**
 * Knows all plugins by kind and name, and makes instances of them: each use in a child container of its own.
 *
 * @example
 * const host = createHost();
 * const run = host.openScope({ seed: 1, baseFolder: '/recipes' });
 * const loss = host.instantiate('loss', 'kl', { temperature: 4 }, { parent: run });
 */
export class PluginHost {
  readonly #root = createRootContainer();
  readonly #plugins = new Map<PluginKind, Map<string, RegisteredPlugin>>();
  readonly #bound = new WeakMap<Plugin, z.core.$ZodType>();

  /** Takes in a plugin. Throws the errors of `checkPlugin`, and `PLUGIN_DUPLICATE` where the kind has one of that name. */
  register(value: unknown, origin: string): Plugin {
    const plugin = checkPlugin(value, origin);
    const sameKind = this.#plugins.get(plugin.kind) ?? new Map<string, RegisteredPlugin>();
    const other = sameKind.get(plugin.name);
    if (other !== undefined) {
      // The same module listed twice (in a base recipe and in its heir) is no conflict.
      if (other.plugin === plugin) return plugin;
      throw new AlambicError(
        'PLUGIN_DUPLICATE',
        `expected one ${plugin.kind} named "${plugin.name}", found two: ${other.origin} and ${origin}`,
        { hint: 'Rename one of them.', at: origin, plugin: plugin.name },
      );
    }
    sameKind.set(plugin.name, { plugin, origin });
    this.#plugins.set(plugin.kind, sameKind);
    return plugin;
  }

  /** A host with the same plugins: what is registered there is not seen here. */
  fork(): PluginHost {
    const fork = new PluginHost();
    for (const { plugin, origin } of this.list()) fork.register(plugin, origin);
    return fork;
  }

  /** The plugin of that name. Throws `UNKNOWN_PLUGIN` with the nearest known name. */
  get<K extends PluginKind>(kind: K, name: string): Plugin<K> {
    const found = this.#plugins.get(kind)?.get(name);
    if (found === undefined) throw this.#unknown(kind, name);
    return found.plugin as Plugin<PluginKind> as Plugin<K>;
  }

  /** Names of a kind, or whether one is known. */
  has(kind: PluginKind, name: string): boolean {
    return this.#plugins.get(kind)?.has(name) ?? false;
  }

  /** All plugins, or those of a kind, by name. */
  list(kind?: PluginKind): RegisteredPlugin[] {
    const kinds =
      kind === undefined
        ? [...this.#plugins.values()]
        : [this.#plugins.get(kind) ?? new Map<string, RegisteredPlugin>()];
    return kinds.flatMap((plugins) => [...plugins.values()].sort((a, b) => (a.plugin.name < b.plugin.name ? -1 : 1)));
  }

  /** Container for a run (below the root) or for a stage (below a run): pass it as `parent` to `instantiate`. */
  openScope(values: ScopeValues = {}, parent: Container = this.#root): Container {
    return createChildContainer(parent, values);
  }

  /** Options as the implementation gets them: checked, defaults filled in. Throws `PLUGIN_OPTION`, all problems in one error. */
  parseOptions(kind: PluginKind, name: string, options: unknown = {}): Record<string, unknown> {
    const plugin = this.get(kind, name);
    const result = z.safeParse(this.optionsSchema(plugin), options, { error: explain });
    if (result.success) return result.data as Record<string, unknown>;
    const problems = problemsOf(result.error.issues);
    const lines = problems.map(({ path, code, message }) => {
      // The message of an unknown or missing key names the key itself.
      const place = showPath(code === 'UNKNOWN_KEY' || code === 'MISSING' ? path.slice(0, -1) : path);
      return place === '' ? message : `${place}: ${message}`;
    });
    const hint = problems.find((problem) => problem.hint !== undefined)?.hint;
    throw new AlambicError('PLUGIN_OPTION', `options of ${kind} "${name}": ${lines.join('; ')}`, {
      ...(hint === undefined ? {} : { hint }),
      plugin: name,
    });
  }

  /**
   * Makes one use of a plugin.
   *
   * Throws `UNKNOWN_PLUGIN`, `PLUGIN_OPTION`, `PLUGIN_INJECTION` where a constructor parameter lacks `@inject` or asks for what is not bound,
   * `PLUGIN_IMPLEMENTATION` where a method of the contract is missing, and what the constructor throws.
   *
   * @param options as in a recipe, without `use`; checked again here, so parsed ones are fine
   */
  instantiate<K extends PluginKind>(
    kind: K,
    name: string,
    options: unknown = {},
    context: UseContext = {},
  ): KindContracts[K] {
    const plugin = this.get(kind, name);
    const parsed = this.parseOptions(kind, name, options);
    const container = createChildContainer(context.parent ?? this.#root, context);
    container.bind(TOKEN.Options).toConstantValue(parsed);
    const create: CreatePlugin = (kind, use) => this.instantiateUse(kind, use, { parent: container });
    container.bind(TOKEN.Create).toConstantValue(create);
    const label = `${name} (${kind})`;
    let instance: unknown;
    try {
      // Transient: a singleton would keep the options of its first use for ever.
      container
        .bind(TOKEN.Implementation)
        .to(plugin.implementation as Constructor<unknown>)
        .inTransientScope();
      instance = container.get(TOKEN.Implementation);
    } catch (error) {
      throw constructionError(error, label);
    }
    checkHooks(instance as object, kind, label);
    const { required, optional } = KIND_HOOKS[kind];
    return wrapHooks(instance as KindContracts[K] & object, label, [...required, ...optional]);
  }

  /** The same for a use as it stands in a recipe: a name, or `{ use, …options }`. */
  instantiateUse<K extends PluginKind>(kind: K, use: PluginUse, context: UseContext = {}): KindContracts[K] {
    return this.instantiate(kind, expandUse(use).use, optionsOf(use), context);
  }

  /** A plugin's options, with every option that is itself a plugin checked against this host. */
  optionsSchema(plugin: Plugin): z.core.$ZodType {
    let schema = this.#bound.get(plugin);
    if (schema === undefined) {
      schema = bindUses(plugin.options, (kind) => this.useSchema(kind));
      this.#bound.set(plugin, schema);
    }
    return schema;
  }

  /** Schema of a use of a plugin of some kind: gives `{ use, …parsed options }`. */
  useSchema(kind: PluginKind) {
    return z.transform((input: unknown, payload): Use => {
      const report = (path: string[], message: string, hint?: string, problem?: string) => {
        payload.issues.push({ code: 'custom', path, message: withHint(message, hint), input, params: { problem } });
        return z.NEVER;
      };
      if (typeof input !== 'string' && (typeof input !== 'object' || input === null || Array.isArray(input))) {
        return report(
          [],
          `expected the name of ${withArticle(kind)} or a map with \`use\`, got ${JSON.stringify(input) ?? 'nothing'}`,
        );
      }
      const { use, ...options } = typeof input === 'string' ? { use: input } : (input as Record<string, unknown>);
      if (typeof use !== 'string') {
        return report(
          [],
          `missing key "use": expected the name of ${withArticle(kind)}`,
          `Known: ${this.#names(kind).join(', ')}.`,
        );
      }
      if (!this.has(kind, use)) {
        const { message, hint } = this.#unknown(kind, use);
        return report(typeof input === 'string' ? [] : ['use'], message, hint, 'UNKNOWN_PLUGIN');
      }
      const schema = this.optionsSchema(this.get(kind, use));
      const result = runSchema(schema, options);
      payload.issues.push(...result.issues);
      return result.issues.length > 0 ? z.NEVER : { use, ...(result.value as Record<string, unknown>) };
    });
  }

  #names(kind: PluginKind): string[] {
    return [...(this.#plugins.get(kind)?.keys() ?? [])];
  }

  #unknown(kind: PluginKind, name: string): AlambicError {
    const elsewhere = [...this.#plugins]
      .filter(([other, plugins]) => other !== kind && plugins.has(name))
      .map(([other]) => other);
    const error = unknownName('UNKNOWN_PLUGIN', kind, name, this.#names(kind));
    if (elsewhere.length === 0) return error;
    const join = error.message.endsWith('?') ? ' There' : ': there';
    return new AlambicError(error.code, `${error.message}${join} is a ${elsewhere.join(' and a ')} of that name`, {
      ...(error.hint === undefined ? {} : { hint: error.hint }),
    });
  }
}

/**
 * Makes an instance of a plugin as a run would, for its tests.
 *
 * @example
 * const loss = instantiatePlugin(plugin, { temperature: 2 });
 */
export function instantiatePlugin<K extends PluginKind>(
  plugin: Plugin<K>,
  options: unknown = {},
  context: UseContext = {},
): KindContracts[K] {
  const host = new PluginHost();
  host.register(plugin, plugin.name);
  return host.instantiate(plugin.kind, plugin.name, options, context);
}

/** One level of a parse inside another one: the issues keep what the outer error map needs. */
export function runSchema(schema: z.core.$ZodType, value: unknown): z.core.ParsePayload {
  const result = schema._zod.run({ value, issues: [] }, {});
  if (result instanceof Promise) {
    throw new AlambicError('PLUGIN_OPTIONS', 'expected options that are checked at once, got an async check', {
      hint: 'Check files and networks in the implementation, not in the schema of the options.',
    });
  }
  return result;
}

/** inversify's own errors, and those of the plugin's constructor. */
function constructionError(error: unknown, plugin: string): AlambicError {
  if (!(error instanceof Error) || error.constructor.name !== 'InversifyCoreError')
    return attribute(error, plugin, 'constructor');
  const unbound = /No bindings found for service: "?(.+?)"?\.\n/.exec(error.message)?.[1];
  const counts = /requires at least (\d+) arguments, found (\d+)/.exec(error.message);
  const tokens = Object.keys(TOKEN)
    .map((name) => `TOKEN.${name}`)
    .join(', ');
  if (unbound !== undefined) {
    return new AlambicError(
      'PLUGIN_INJECTION',
      `the plugin's constructor asks for ${unbound}, which nothing provides here`,
      {
        hint: `A plugin may inject ${tokens}.`,
        plugin,
        cause: error,
      },
    );
  }
  const message =
    counts === null
      ? `the plugin could not be built: ${error.message.split('\n')[0]}`
      : `the plugin's constructor has ${counts[1]} parameters, but @inject on ${counts[2]} of them`;
  return new AlambicError('PLUGIN_INJECTION', message, {
    hint: `Write \`@inject(TOKEN.Options)\` (or another of ${tokens}) before every constructor parameter.`,
    plugin,
    cause: error,
  });
}

function withArticle(kind: PluginKind): string {
  return `${/^[aeiou]/.test(kind) ? 'an' : 'a'} ${kind}`;
}
