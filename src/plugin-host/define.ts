import type { z } from 'zod';
import type { Plugin, PluginKind } from './contract.ts';

/**
 * Declares a plugin: the one default export of its file. Only types are checked here; the host checks the rest when it loads it.
 *
 * @example
 * export default definePlugin({ name: 'my-loss', kind: 'loss', apiVersion: 1, options: z.strictObject({}), implementation: MyLoss });
 */
export function definePlugin<K extends PluginKind, O extends z.ZodType>(plugin: Plugin<K, O>): Plugin<K, O> {
  return plugin;
}
