import 'reflect-metadata';
import { Container, type ServiceIdentifier } from 'inversify';
import type { Listener } from './contract.ts';
import { TOKEN } from './tokens.ts';

/** What the plugins of a run, of a stage or of one use may inject. A member that is absent comes from the level above. */
export interface ScopeValues {
  /** Seed of the run. @default 0 */
  readonly seed?: number;
  /** Folder against which relative paths in options are resolved. @default the working folder */
  readonly baseFolder?: string;
  /** Where a plugin's own events go. @default nowhere */
  readonly events?: Listener;
  /** Further services by token, shared by all plugins below. */
  readonly services?: readonly (readonly [token: ServiceIdentifier<unknown>, value: unknown])[];
}

const SILENT: Listener = { on: () => undefined };

/** The root of the composition: root -> run -> stage -> use. Holds what every plugin may rely on. */
export function createRootContainer(): Container {
  const root = new Container();
  root.bind(TOKEN.Seed).toConstantValue(0);
  root.bind(TOKEN.BaseFolder).toDynamicValue(() => process.cwd());
  root.bind(TOKEN.Events).toConstantValue(SILENT);
  return root;
}

/** A level below `parent` for a run or a stage: what is bound here hides the parent's. */
export function createChildContainer(parent: Container, values: ScopeValues = {}): Container {
  const child = new Container({ parent });
  if (values.seed !== undefined) child.bind(TOKEN.Seed).toConstantValue(values.seed);
  if (values.baseFolder !== undefined) child.bind(TOKEN.BaseFolder).toConstantValue(values.baseFolder);
  if (values.events !== undefined) child.bind(TOKEN.Events).toConstantValue(values.events);
  for (const [token, value] of values.services ?? []) child.bind(token).toConstantValue(value);
  return child;
}
