import { stat } from 'node:fs/promises';
import { isAbsolute, resolve } from 'node:path';
import * as tf from '@tensorflow/tfjs-core';
import type { Container } from 'inversify';
import { AlambicError, unknownName } from '../errors.ts';
import { describeModule, initialise } from '../nn/describe.ts';
import type { Backbone, ModelDescription, ModelState, Tensors } from '../nn/module.ts';
import { ZOO } from '../nn/zoo.ts';
import type { RunEvent, Transform } from '../plugin-host/contract.ts';
import type { PluginHost } from '../plugin-host/host.ts';
import type { Use } from '../plugin-host/use.ts';
import type { LoadedRecipe } from '../recipe/load.ts';
import type { Recipe, RecipeStage } from '../recipe/schema.ts';
import { monitorMode } from './checkpoint-keeper.ts';
import type { NamedStrategy } from './groups.ts';
import { loadModel, loadWeights, type ModelArrays } from './model-files.ts';
import { RunData } from './run-data.ts';
import type { StageInput, StageModel } from './stage-input.ts';

/** A recipe with everything built that its stages share: data, networks, plugins. No value exists yet. */
export interface PreparedRun {
  readonly recipe: Recipe;
  readonly host: PluginHost;
  readonly scope: Container;
  readonly data: RunData;
  readonly transforms: readonly Transform[];
  readonly models: ReadonlyMap<string, StageModel>;
  /** [H,W,C] that the networks see: after the transforms. */
  readonly networkSize: readonly [number, number, number];
}

type Size = readonly [number, number, number];

/** Builds what a recipe's stages share. The engine must be open. */
export async function prepareRun(loaded: LoadedRecipe, emit: (event: RunEvent) => void): Promise<PreparedRun> {
  const { recipe, host } = loaded;
  const scope = host.openScope({ seed: recipe.seed, baseFolder: recipe.baseFolder, events: { on: emit } });
  const source = await host.instantiateUse('source', recipe.data.source, { parent: scope }).open();
  const firstModel = Object.values(recipe.models)[0]!;
  const zoo = ZOO.find(({ name }) => name === firstModel.use);
  const inputSize = recipe.data.input ?? zoo?.preprocessing.inputSize;
  if (inputSize === undefined) {
    throw new AlambicError('DATA_SIZE', `model "${firstModel.use}" states no input size of its own`, {
      hint: 'Say it in the recipe: `data: { input: [32, 32, 3] }`.',
    });
  }
  const transforms = recipe.data.augment.map((use) => host.instantiateUse('transform', use, { parent: scope }));
  const networkSize = sizeAfter(inputSize, transforms);
  const { mean, std } = normalisation(recipe, zoo?.preprocessing, inputSize[2]);
  const { resize, loader, splits } = recipe.data;
  const data = new RunData({
    source,
    splits,
    inputSize,
    ...(resize === undefined ? {} : { resize }),
    mean,
    std,
    seed: recipe.seed,
    readers: loader.readers,
    prefetch: loader.prefetch,
    onUnreadable: loader.onUnreadable,
    emit,
  });
  const models = new Map<string, StageModel>();
  for (const name of Object.keys(recipe.models)) {
    const use = modelUse(recipe, name);
    const backbone = host
      .instantiateUse('model', use, { parent: scope })
      .build({ inputSize: networkSize, classes: source.labels.length });
    models.set(name, { name, backbone, description: describe(backbone) });
  }
  return { recipe, host, scope, data, transforms, models, networkSize };
}

/** A model of a recipe as a use of its plugin, without where its values come from. */
export function modelUse(recipe: Recipe, name: string): Use {
  const { weights: _, ...use } = recipe.models[name]!;
  return use;
}

const descriptions = new WeakMap<Backbone, ModelDescription>();

function describe(backbone: Backbone): ModelDescription {
  let description = descriptions.get(backbone);
  if (description === undefined) {
    description = describeModule(backbone);
    descriptions.set(backbone, description);
  }
  return description;
}

/** Size of an image after the transforms. */
export function sizeAfter(size: Size, transforms: readonly Transform[]): Size {
  let shape: readonly number[] = size;
  for (const transform of transforms) shape = transform.outputShape(shape);
  return shape as unknown as Size;
}

function normalisation(
  recipe: Recipe,
  zoo: { mean: readonly number[]; std: readonly number[] } | undefined,
  channels: number,
) {
  const rule = recipe.data.normalise;
  if (typeof rule === 'object') return rule;
  if (rule === 'none' || zoo === undefined) return { mean: [0], std: [1] };
  // A network made for three channels that is given one sees the mean of the three numbers.
  const fit = (values: readonly number[]) =>
    values.length === channels || values.length === 1 ? values : [values.reduce((a, b) => a + b, 0) / values.length];
  return { mean: fit(zoo.mean), std: fit(zoo.std) };
}

/** First values of a model: from its weights, or drawn from the seed. Two models of one architecture start alike. */
export async function firstValues(prepared: PreparedRun, name: string): Promise<ModelState> {
  const model = prepared.models.get(name)!;
  const { weights } = prepared.recipe.models[name]!;
  if (weights === undefined) return initialise(model.description, prepared.recipe.seed);
  const path = isAbsolute(weights) ? weights : resolve(prepared.recipe.baseFolder, weights);
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) {
    throw new AlambicError('MODEL_MISSING', `weights of model "${name}": there is nothing at ${path}`, {
      hint: "Relative paths start from the recipe's folder.",
    });
  }
  if (!found.isDirectory()) return stateOf(model.description, (await loadWeights(path, model.description)).arrays);
  const { arrays, labels } = await loadModel(path, model.description);
  const expected = prepared.data.labels;
  if (labels.length > 0 && labels.join('\n') !== expected.join('\n')) {
    throw new AlambicError(
      'LABELS_MISMATCH',
      `weights of model "${name}" are for the classes ${shown(labels)}, the data has ${shown(expected)}`,
      {
        hint: 'Classes must be the same, in the same order.',
      },
    );
  }
  return stateOf(model.description, arrays);
}

const shown = (labels: readonly string[]) =>
  `${labels.slice(0, 6).join(', ')}${labels.length > 6 ? `, … (${labels.length})` : ''}`;

/** Tensors of arrays in our layout. */
export function stateOf(description: ModelDescription, arrays: ModelArrays): ModelState {
  const make = (specs: readonly { readonly name: string; readonly shape: readonly number[] }[]): Tensors =>
    Object.fromEntries(specs.map(({ name, shape }) => [name, tf.tensor(arrays[name]!, [...shape], 'float32')]));
  return { params: make(description.parameters), buffers: make(description.buffers) };
}

/** Arrays in our layout of a network's values. */
export function arraysOf(state: ModelState): ModelArrays {
  const arrays: Record<string, Float32Array> = {};
  for (const [name, tensor] of [...Object.entries(state.params), ...Object.entries(state.buffers)]) {
    arrays[name] = tensor.dataSync() as Float32Array;
  }
  return arrays;
}

/** What a stage is made of, without values: everything of `StageInput` that comes from the recipe. */
export type StagePlan = Pick<
  StageInput,
  | 'name'
  | 'seed'
  | 'student'
  | 'strategies'
  | 'labels'
  | 'loader'
  | 'preparation'
  | 'optimizer'
  | 'schedule'
  | 'epochs'
  | 'accumulate'
  | 'clip'
  | 'ema'
  | 'evaluateEvery'
  | 'logEvery'
  | 'saveEvery'
  | 'earlyStop'
  | 'limitUpdates'
> & {
  readonly teachers: Readonly<
    Record<
      string,
      StageModel & { readonly mode: RecipeStage['teachers'][string]['mode']; readonly floor: number | undefined }
    >
  >;
};

/** Builds a stage's plugins and loader. */
export function planStage(prepared: PreparedRun, stage: RecipeStage, limitUpdates?: number): StagePlan {
  const { recipe, host, data, models } = prepared;
  const seed = stage.seed ?? recipe.seed;
  const scope = host.openScope({ seed }, prepared.scope);
  const context = { parent: scope };
  const model = (name: string) => {
    const found = models.get(name);
    if (found === undefined) throw unknownName('UNKNOWN_MODEL', 'model', name, models.keys());
    return found;
  };
  const counts = new Map<string, number>();
  const strategies: NamedStrategy[] = stage.strategies.map((use) => {
    const n = (counts.get(use.use) ?? 0) + 1;
    counts.set(use.use, n);
    return { name: n === 1 ? use.use : `${use.use}-${n}`, strategy: host.instantiateUse('strategy', use, context) };
  });
  const transforms =
    stage.data.augment === undefined
      ? prepared.transforms
      : stage.data.augment.map((use) => host.instantiateUse('transform', use, context));
  const size = sizeAfter(data.inputSize, transforms);
  if (size.join() !== prepared.networkSize.join()) {
    throw new AlambicError(
      'DATA_SIZE',
      `stage "${stage.name}" augments to [${size}], its networks take [${prepared.networkSize}]`,
      {
        hint: 'Transforms of a stage must end in the same size as those of `data`.',
      },
    );
  }
  const loader = data.trainLoader(
    { labelled: stage.data.labelled ?? recipe.data.labelled, use: stage.data.items, repeat: stage.data.repeat },
    stage.batch,
    seed,
  );
  const perEpoch = Math.ceil(loader.batches / stage.accumulate);
  if (stage.epochs === undefined && stage.steps === undefined) {
    throw new AlambicError('RECIPE_VALUE', `stage "${stage.name}" needs \`epochs\` or \`steps\``);
  }
  const limit = Math.min(stage.steps ?? Number.POSITIVE_INFINITY, limitUpdates ?? Number.POSITIVE_INFINITY);
  const monitor = stage.monitor ?? recipe.run.keep.monitor;
  return {
    name: stage.name,
    seed,
    student: model(stage.model),
    teachers: Object.fromEntries(
      Object.entries(stage.teachers).map(([name, teacher]) => [
        name,
        { ...model(teacher.model), mode: teacher.mode, floor: teacher.floor },
      ]),
    ),
    strategies,
    labels: data.labels,
    loader,
    preparation: data.preparation(transforms),
    optimizer: host.instantiateUse('optimizer', stage.optimizer, context),
    schedule: host.instantiateUse('schedule', stage.schedule, context),
    epochs: stage.epochs ?? Math.ceil(stage.steps! / perEpoch),
    accumulate: stage.accumulate,
    clip: stage.clip,
    ema:
      stage.ema === undefined
        ? undefined
        : { decay: stage.ema.decay, warmup: stage.ema.warmup, evaluate: stage.ema.evaluate === 'ema' },
    evaluateEvery: recipe.run.evaluateEvery,
    logEvery: recipe.run.logEvery,
    saveEvery: recipe.run.saveEvery,
    earlyStop:
      stage.patience === undefined
        ? undefined
        : {
            monitor,
            // A mode belongs to the metric that it was written for.
            mode: (monitor === recipe.run.keep.monitor ? recipe.run.keep.mode : undefined) ?? monitorMode(monitor),
            patience: stage.patience,
            minDelta: stage.minDelta,
          },
    limitUpdates: Number.isFinite(limit) ? limit : undefined,
  };
}
