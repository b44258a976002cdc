import type { ServiceIdentifier } from 'inversify';
import type { KindContracts, Listener, PluginKind } from './contract.ts';

/** Makes an instance of another plugin from a use of it in the options: `{ use: name, … }` or just its name. */
export type CreatePlugin = <K extends PluginKind>(kind: K, use: PluginUse) => KindContracts[K];

/** A use of a plugin as a recipe writes it. */
export type PluginUse = string | ({ readonly use: string } & Readonly<Record<string, unknown>>);

/** Injection tokens. Write `@inject(TOKEN.…)` on every constructor parameter: tsx emits no parameter types. */
export const TOKEN = {
  /** The parsed options of this use of the plugin. */
  Options: Symbol.for('alambic.Options') as ServiceIdentifier<unknown>,
  /** The implementation of the plugin in its child container. */
  Implementation: Symbol.for('alambic.Implementation') as ServiceIdentifier<unknown>,
  /** Where a plugin sends warnings and events of its own: `events.on({ type: 'warning', … })`. */
  Events: Symbol.for('alambic.Events') as ServiceIdentifier<Listener>,
  /** Folder against which relative paths in options are resolved: the recipe's. */
  BaseFolder: Symbol.for('alambic.BaseFolder') as ServiceIdentifier<string>,
  /** Makes instances of other plugins, for options declared with `useOf` (a strategy's loss). */
  Create: Symbol.for('alambic.Create') as ServiceIdentifier<CreatePlugin>,
  /** Seed of the run. */
  Seed: Symbol.for('alambic.Seed') as ServiceIdentifier<number>,
};
