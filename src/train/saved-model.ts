import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { AlambicError } from '../errors.ts';
import { describeModule } from '../nn/describe.ts';
import type { Backbone, ModelDescription, ModelState } from '../nn/module.ts';
import { createHost } from '../plugin-host/builtins.ts';
import type { PluginUse } from '../plugin-host/tokens.ts';
import { loadRecipe } from '../recipe/load.ts';
import type { ModelConfig } from './model-config.ts';
import { loadModel, readModelConfig } from './model-files.ts';
import { stateOf } from './prepare.ts';
import { readRunSummary } from './run.ts';
import { runPaths } from './run-folder.ts';
import type { RunSummary } from './run-result.ts';

/** A trained network, ready to run. */
export interface SavedModel {
  readonly folder: string;
  readonly config: ModelConfig;
  readonly backbone: Backbone;
  readonly description: ModelDescription;
  /** The caller disposes it. */
  readonly state: ModelState;
}

/** Where a trained network lies, and the run it belongs to, if any. */
export interface ModelPlace {
  readonly folder: string;
  readonly run?: { readonly folder: string; readonly stage: string; readonly summary: RunSummary };
}

/**
 * Finds what a path stands for: a model folder, or a run folder, which stands for its last student (else its last stage).
 *
 * @throws AlambicError MODEL_MISSING, RUN_RESULT.
 */
export async function findModel(path: string): Promise<ModelPlace> {
  const folder = resolve(path);
  if (existsSync(join(folder, 'config.json'))) {
    const runFolder = resolve(folder, '../..');
    if (!existsSync(join(runFolder, 'result.json'))) return { folder };
    const summary = await readRunSummary(runFolder);
    const found = summary.stages.find(({ modelFolder }) => resolve(runFolder, modelFolder) === folder);
    return found === undefined ? { folder } : { folder, run: { folder: runFolder, stage: found.stage, summary } };
  }
  if (existsSync(join(folder, 'result.json')) || existsSync(join(folder, 'run.json'))) {
    const summary = await readRunSummary(folder);
    const stage = summary.stages.findLast(({ teachers }) => teachers.length > 0) ?? summary.stages.at(-1);
    if (stage !== undefined) {
      return { folder: resolve(folder, stage.modelFolder), run: { folder, stage: stage.stage, summary } };
    }
  }
  throw new AlambicError(
    'MODEL_MISSING',
    'expected the folder of a model (with config.json) or of a run that finished a stage',
    {
      at: path,
      hint: 'Models lie in the folder `models` of a run: `runs/…/models/student`.',
    },
  );
}

/** Builds the network of a place and loads its weights. The engine must be open. A model of a run is built as its recipe says. */
export async function openModel({ folder, run }: ModelPlace): Promise<SavedModel> {
  const config = await readModelConfig(folder);
  let host = createHost();
  let use: PluginUse = config.architecture;
  if (run !== undefined) {
    const loaded = await loadRecipe(runPaths(run.folder).recipe, {}, host);
    const stage = loaded.recipe.stages.find(({ name }) => name === run.stage);
    const entry = stage === undefined ? undefined : loaded.recipe.models[stage.model];
    if (entry !== undefined) {
      const { weights: _, ...own } = entry;
      use = own;
      host = loaded.host;
    }
  }
  const backbone = host
    .instantiateUse('model', use)
    .build({ inputSize: config.preprocessing.inputSize, classes: config.classes });
  const description = describeModule(backbone);
  const { arrays } = await loadModel(folder, description);
  return { folder, config, backbone, description, state: stateOf(description, arrays) };
}
