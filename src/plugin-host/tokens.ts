import type { ServiceIdentifier } from 'inversify';
import type { Listener } from './contract.ts';

/** Injection tokens. Write `@inject(TOKEN.…)` on every constructor parameter: tsx emits no parameter types. */
export const TOKEN = {
  /** The parsed options of this use of the plugin. */
  Options: Symbol.for('alambic.Options') as ServiceIdentifier<unknown>,
  /** The implementation of the plugin in its child container. */
  Implementation: Symbol.for('alambic.Implementation') as ServiceIdentifier<unknown>,
  /** `(event) => void`: warnings and events of a plugin's own. */
  Events: Symbol.for('alambic.Events') as ServiceIdentifier<Listener>,
  /** Folder against which relative paths in options are resolved: the recipe's. */
  BaseFolder: Symbol.for('alambic.BaseFolder') as ServiceIdentifier<string>,
  /** Seed of the run. */
  Seed: Symbol.for('alambic.Seed') as ServiceIdentifier<number>,
};
