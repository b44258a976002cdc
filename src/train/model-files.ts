import nodeFs from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { AlambicError, nearestName } from '../errors.ts';
import { writeText } from '../formats/file-bytes.ts';
import {
  openSafetensors,
  type SafetensorsReader,
  type TensorRecord,
  writeSafetensors,
} from '../formats/safetensors.ts';
import { elementCount, tensorData, toFloat32 } from '../formats/tensor-data.ts';
import { fromTorchLayout, torchCounters, torchShape, toTorchLayout } from '../nn/layout.ts';
import type { ModelDescription, Preprocessing, Role, Shape } from '../nn/module.ts';
import type { Use } from '../plugin-host/use.ts';
import { errnoOf, type FileSystem } from './file-errors.ts';
import { replaceFolder, statOrUndefined } from './folder-replacement.ts';
import { cleanLeftovers } from './leftovers.ts';
import { decodeModelConfig, encodeModelConfig, type ModelConfig } from './model-config.ts';

const WEIGHTS = 'model.safetensors';
const CONFIG = 'config.json';

/** Values of parameters and buffers by dotted name, in our layout ([kh,kw,in,out], [in,out]). */
export type ModelArrays = Readonly<Record<string, Float32Array>>;

export interface ModelToSave {
  readonly description: ModelDescription;
  readonly arrays: ModelArrays;
  /** Class names in the order of the outputs; empty where there are none. */
  readonly labels: readonly string[];
  readonly preprocessing: Preprocessing;
  /** The model plugin and options that built the network: with it, the folder alone is enough to build it again. */
  readonly model?: Use;
}

/** What did not fit between a file and a network. Names are those of the network, but for `unexpected`. */
export interface LoadReport {
  /** In the network, not in the file. */
  readonly missing: readonly string[];
  /** In the file, not in the network. */
  readonly unexpected: readonly string[];
  /** Differ by axes of size 1 only, reshaped: torchvision's layer scale [C,1,1], a 1x1 convolution used as a dense layer. */
  readonly reshaped: readonly string[];
  /** Of another shape. */
  readonly mismatched: readonly string[];
  /** Classifier weights left out on demand (`classifier: 'drop'`); they are not in `arrays`. */
  readonly dropped: readonly string[];
}

export interface LoadModelOptions {
  /** `drop` leaves the classifier's weights out, for a task with other classes. @default 'keep' */
  readonly classifier?: 'keep' | 'drop';
  /** Whether missing, unexpected or mismatched weights are an error; else they are in the report only. @default true */
  readonly strict?: boolean;
}

/**
 * Saves a network as a folder that timm reads: `model.safetensors` with timm's names and torch's layout, `config.json` beside it.
 * An old folder of that name is replaced as a whole.
 *
 * @throws AlambicError MODEL_ARRAYS where arrays and description do not fit; CHECKPOINT_NO_SPACE, RUN_FOLDER_READ_ONLY, RUN_FOLDER_IS_FILE.
 * @example await saveModel('runs/a/models/student', { description, arrays, labels: ['cat', 'dog'], preprocessing });
 */
export async function saveModel(
  folder: string,
  { description, arrays, labels, preprocessing, model }: ModelToSave,
  { fs = nodeFs }: { readonly fs?: FileSystem } = {},
): Promise<void> {
  const classes = description.outputShape.at(-1) ?? 0;
  if (labels.length > 0 && labels.length !== classes)
    throw new AlambicError('MODEL_ARRAYS', `expected ${classes} labels, one a class, got ${labels.length}`);
  const tensors = encodeArrays(description, arrays);
  const { architecture, classifier } = description;
  const config = encodeModelConfig({
    architecture,
    classes,
    labels,
    preprocessing,
    classifier,
    ...(model === undefined ? {} : { model }),
  });
  const bytes = Object.values(tensors).reduce((sum, { data }) => sum + data.byteLength, 0);
  if ((await statOrUndefined(fs, dirname(folder)))?.isDirectory()) await cleanLeftovers(dirname(folder), fs);
  await replaceFolder(fs, folder, { what: `model "${basename(folder)}"`, bytes }, async (aside) => {
    // `format: pt` is what transformers and timm look for.
    const metadata = { format: 'pt' };
    await writeSafetensors(join(aside, WEIGHTS), tensors, { metadata, sync: true, open: fs.open });
    await writeText(join(aside, CONFIG), config, fs);
  });
}

/**
 * Reads the `config.json` of a model folder.
 *
 * @throws AlambicError MODEL_MISSING, MODEL_CONFIG.
 */
export async function readModelConfig(folder: string): Promise<ModelConfig> {
  const path = join(folder, CONFIG);
  let text: string;
  try {
    text = await nodeFs.readFile(path, 'utf8');
  } catch (cause) {
    throw missingFile(path, cause);
  }
  return decodeModelConfig(text, path);
}

/**
 * Loads the weights of a model folder of ours or timm's (float32, float16 or bfloat16) for a network.
 *
 * @param description Of the network that is to take the weights; see `readModelConfig` for the architecture it was saved with.
 * @throws AlambicError MODEL_MISSING, MODEL_CONFIG, FORMAT_SAFETENSORS; MODEL_WEIGHTS where `strict` and the report is not clean, or a value is not finite.
 * @example
 * const { architecture, classes } = await readModelConfig('runs/a/models/teacher');
 * const { arrays, labels } = await loadModel('runs/a/models/teacher', description);
 */
export async function loadModel(
  folder: string,
  description: ModelDescription,
  options: LoadModelOptions = {},
): Promise<ModelConfig & { readonly arrays: ModelArrays; readonly report: LoadReport }> {
  const config = await readModelConfig(folder);
  return { ...config, ...(await loadWeights(join(folder, WEIGHTS), description, options)) };
}

/**
 * Loads a bare safetensors file in torch's layout and timm's names for a network; `module.` and `_orig_mod.` before all names are taken off.
 *
 * @throws AlambicError see `loadModel`.
 */
export async function loadWeights(
  path: string,
  description: ModelDescription,
  { classifier = 'keep', strict = true }: LoadModelOptions = {},
): Promise<{ readonly arrays: ModelArrays; readonly report: LoadReport }> {
  let file: SafetensorsReader;
  try {
    file = await openSafetensors(path);
  } catch (cause) {
    if (errnoOf(cause) === 'ENOENT' || errnoOf(cause) === 'ENOTDIR') throw missingFile(path, cause);
    throw cause;
  }
  try {
    const { arrays, report } = await matchArrays(file, description, classifier === 'drop');
    if (strict) checkReport(report, file, description, path);
    checkFinite(arrays, description, path);
    return { arrays, report };
  } finally {
    await file.close();
  }
}

interface Slot {
  readonly name: string;
  readonly shape: Shape;
  /** Buffers have none: their layout is the same everywhere. */
  readonly role?: Role;
}

function slotsOf({ parameters, buffers }: ModelDescription): readonly Slot[] {
  return [...parameters, ...buffers.map(({ name, shape }) => ({ name, shape }))];
}

function encodeArrays(description: ModelDescription, arrays: ModelArrays): TensorRecord {
  const slots = slotsOf(description);
  const known = new Set(slots.map(({ name }) => name));
  const unknown = Object.keys(arrays).find((name) => !known.has(name));
  if (unknown !== undefined)
    throw new AlambicError('MODEL_ARRAYS', `${description.architecture} has no parameter or buffer "${unknown}"`);
  const tensors: [string, TensorRecord[string]][] = [];
  for (const slot of slots) {
    const { name, shape, role } = slot;
    const values = arrays[name];
    if (values?.length !== elementCount(shape))
      throw new AlambicError(
        'MODEL_ARRAYS',
        `${name}: expected ${elementCount(shape)} values for [${shape.join(',')}], got ${values?.length ?? 'none'}`,
      );
    const torch = role === undefined ? { shape, data: values } : toTorchLayout({ shape, role }, values);
    tensors.push([name, tensorData(torch.data, torch.shape)]);
  }
  // torch counts the batches of each BatchNorm; strict loaders look for the name, and the number is used by none of ours.
  for (const name of torchCounters(description.buffers)) tensors.push([name, tensorData(BigInt64Array.of(0n), [])]);
  return Object.fromEntries(tensors);
}

async function matchArrays(file: SafetensorsReader, description: ModelDescription, dropClassifier: boolean) {
  const names = [...file.entries.keys()].filter((name) => !name.endsWith('num_batches_tracked'));
  const prefix = commonPrefix(names);
  const unused = new Set(names);
  const arrays: Record<string, Float32Array> = {};
  const report = {
    missing: [] as string[],
    unexpected: [] as string[],
    reshaped: [] as string[],
    mismatched: [] as string[],
    dropped: [] as string[],
  };
  for (const { name, shape, role } of slotsOf(description)) {
    const stored = prefix + name;
    const entry = file.entries.get(stored);
    unused.delete(stored);
    if (dropClassifier && name.startsWith(`${description.classifier}.`)) report.dropped.push(name);
    else if (entry === undefined) report.missing.push(name);
    else {
      const expected = role === undefined ? shape : torchShape({ shape, role });
      if (squeezed(entry.shape) !== squeezed(expected)) {
        report.mismatched.push(name);
        continue;
      }
      if (entry.shape.join() !== expected.join()) report.reshaped.push(name);
      const values = toFloat32(await file.read(stored));
      arrays[name] = role === undefined ? values : fromTorchLayout({ shape, role }, values);
    }
  }
  report.unexpected.push(...unused);
  return { arrays, report };
}

function checkFinite(arrays: ModelArrays, description: ModelDescription, path: string): void {
  const bad = Object.entries(arrays)
    .filter(([, values]) => !values.every(Number.isFinite))
    .map(([name]) => name);
  if (bad.length === 0) return;
  throw new AlambicError(
    'MODEL_WEIGHTS',
    `the weights for ${description.architecture} hold values that are not finite, in ${bad.slice(0, 6).join(', ')}${bad.length > 6 ? `, … (${bad.length} in all)` : ''}`,
    { at: path, hint: 'The network they come from had diverged; take an earlier checkpoint or train it again.' },
  );
}

/** The axes that are not 1: arrays with the same ones hold the same elements in the same order. */
function squeezed(shape: Shape): string {
  return shape.filter((size) => size !== 1).join();
}

/** What DataParallel and torch.compile put before every name. */
function commonPrefix(names: readonly string[]): string {
  let prefix = '';
  for (const wrapper of ['module.', '_orig_mod.', 'module.'])
    if (names.length > 0 && names.every((name) => name.startsWith(prefix + wrapper))) prefix += wrapper;
  return prefix;
}

function checkReport(report: LoadReport, file: SafetensorsReader, description: ModelDescription, path: string): void {
  const { missing, unexpected, mismatched } = report;
  if (missing.length + unexpected.length + mismatched.length === 0) return;
  const list = (names: readonly string[]) =>
    names.slice(0, 6).join(', ') + (names.length > 6 ? `, … (${names.length} in all)` : '');
  const shapes = new Map(
    slotsOf(description).map(({ name, shape, role }) => [
      name,
      role === undefined ? shape : torchShape({ shape, role }),
    ]),
  );
  const sizes = mismatched.map(
    (name) => `${name} (file [${file.entries.get(name)?.shape}], needed [${shapes.get(name)}])`,
  );
  const parts = [
    missing.length > 0 ? `missing in the file: ${list(missing)}` : '',
    unexpected.length > 0 ? `unexpected in the file: ${list(unexpected)}` : '',
    mismatched.length > 0 ? `of another shape: ${list(sizes)}` : '',
  ].filter((part) => part !== '');
  const onlyClassifier =
    missing.length + unexpected.length === 0 &&
    mismatched.every((name) => name.startsWith(`${description.classifier}.`));
  const near = missing[0] === undefined ? undefined : nearestName(missing[0], unexpected);
  throw new AlambicError('MODEL_WEIGHTS', `the weights do not fit ${description.architecture}: ${parts.join('; ')}`, {
    at: path,
    hint: onlyClassifier
      ? 'Only the classifier differs: the file has another number of classes. Load with `classifier: drop` to train a new one.'
      : `Check that the file is of this architecture and uses timm's names${near === undefined ? '' : ` ("${near}" may be "${missing[0]}")`}.`,
  });
}

function missingFile(path: string, cause: unknown): AlambicError {
  return new AlambicError(
    'MODEL_MISSING',
    `expected ${basename(path)} in the model folder: ${(cause as Error).message}`,
    {
      at: path,
      hint: `A model folder holds ${WEIGHTS} and ${CONFIG}; trained models lie in the run folder under models/.`,
      cause,
    },
  );
}
