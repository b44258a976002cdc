import { createHost } from '../plugin-host/builtins.ts';
import type { PluginHost } from '../plugin-host/host.ts';
import { loadRecipe } from '../recipe/load.ts';
import type { ModelPlace } from '../train/find-model.ts';
import { runPaths } from '../train/run-folder.ts';

/** The plugins that a model may need: the built-in ones, and those of its run's recipe. */
export async function hostOf({ run }: ModelPlace): Promise<PluginHost> {
  const host = createHost();
  return run === undefined ? host : (await loadRecipe(runPaths(run.folder).recipe, {}, host)).host;
}
