import { SOURCE_PLUGINS } from '../data/builtins.ts';
import { PluginHost } from './host.ts';

/** All plugins that come with alambic. A plain list: nothing registers by being imported. */
export const BUILT_IN_PLUGINS: readonly unknown[] = [...SOURCE_PLUGINS];

/** A host with the built-in plugins. */
export function createHost(): PluginHost {
  const host = new PluginHost();
  for (const plugin of BUILT_IN_PLUGINS) host.register(plugin, 'built in');
  return host;
}
