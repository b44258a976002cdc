import { EXIT } from '../../errors.ts';
import { createHost } from '../../plugin-host/builtins.ts';
import type { Command } from '../command.ts';
import { loadWithOptions } from '../train-recipe.ts';
import { formatPluginList, listPlugins } from './plugin.ts';

/** `alambic plugins`: all plugins with their options, those of a recipe too where one is named. */
export const run: Command = async ({ options, writer }) => {
  const host = options.recipe === undefined ? createHost() : (await loadWithOptions(options.recipe, {})).host;
  writer.result(formatPluginList(host, options.kind), listPlugins(host, options.kind));
  return EXIT.ok;
};
