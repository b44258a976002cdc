import { SOURCE_PLUGINS, TRANSFORM_PLUGINS } from '../data/builtins.ts';
import { LOGGER_PLUGINS } from '../loggers/builtins.ts';
import { LOSS_PLUGINS } from '../losses/builtins.ts';
import { METRIC_PLUGINS } from '../metrics/builtins.ts';
import { MODEL_PLUGINS } from '../nn/zoo.ts';
import { OPTIMIZER_PLUGINS, SCHEDULE_PLUGINS } from '../optim/builtins.ts';
import { STRATEGY_PLUGINS } from '../strategies/builtins.ts';
import { PluginHost } from './host.ts';

/** All plugins that come with alambic. A plain list: nothing registers by being imported. */
export const BUILT_IN_PLUGINS: readonly unknown[] = [
  ...MODEL_PLUGINS,
  ...SOURCE_PLUGINS,
  ...TRANSFORM_PLUGINS,
  ...STRATEGY_PLUGINS,
  ...OPTIMIZER_PLUGINS,
  ...SCHEDULE_PLUGINS,
  ...LOSS_PLUGINS,
  ...METRIC_PLUGINS,
  ...LOGGER_PLUGINS,
];

/** A host with the built-in plugins. */
export function createHost(): PluginHost {
  const host = new PluginHost();
  for (const plugin of BUILT_IN_PLUGINS) host.register(plugin, 'built in');
  return host;
}
