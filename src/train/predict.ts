import { decodeImage } from '../data/decode.ts';
import { describeModule } from '../nn/describe.ts';
import type { Backbone, ModelDescription, ModelState } from '../nn/module.ts';
import type { PluginHost } from '../plugin-host/host.ts';
import { Evaluator, softmaxRows } from './evaluate.ts';
import { disposeModel } from './fingerprint.ts';
import type { ModelConfig } from './model-config.ts';
import { loadModel, readModelConfig } from './model-files.ts';
import { stateOf } from './prepare.ts';

/** A trained network, ready to run. */
export interface OpenModel {
  readonly folder: string;
  readonly config: ModelConfig;
  readonly backbone: Backbone;
  readonly description: ModelDescription;
  /** Whoever opened the model disposes it. */
  readonly state: ModelState;
}

/**
 * Opens a model folder: builds its network with the plugin and options that its config names (else its architecture) and loads its
 * weights. The engine must be open.
 *
 * @param host Knows the model plugins; a network of a third party needs one with its plugin.
 * @throws AlambicError MODEL_MISSING, MODEL_CONFIG, MODEL_WEIGHTS, UNKNOWN_PLUGIN.
 */
export async function openModel(folder: string, host: PluginHost): Promise<OpenModel> {
  const config = await readModelConfig(folder);
  const backbone = host
    .instantiateUse('model', config.model ?? config.architecture)
    .build({ inputSize: config.preprocessing.inputSize, classes: config.classes });
  const description = describeModule(backbone);
  const { arrays } = await loadModel(folder, description);
  return { folder, config, backbone, description, state: stateOf(description, arrays) };
}

/** What a network says of an image file. */
export interface Prediction {
  readonly image: string;
  /** Classes from the most to the least probable; probabilities 0..1. */
  readonly classes: readonly { readonly index: number; readonly label: string; readonly probability: number }[];
}

/** Images that go through the network at once. */
const BATCH = 32;

/**
 * Classifies image files, prepared as the network was trained: its size, its interpolation, its normalisation.
 *
 * @example
 * const predictor = new Predictor(await openModel('runs/my/models/student', createHost()));
 * try {
 *   for await (const { image, classes } of predictor.predict(['cat.jpg'])) …
 * } finally { predictor.dispose(); }
 */
export class Predictor {
  readonly model: OpenModel;
  readonly #evaluator: Evaluator;

  /** Takes the model over: `dispose` frees it. */
  constructor(model: OpenModel) {
    this.model = model;
    const { mean, std } = model.config.preprocessing;
    this.#evaluator = new Evaluator('predict', model.backbone, { transforms: [], mean, std }, model.config.classes);
  }

  /**
   * Predictions in the order of the files.
   *
   * @param top Classes of each image. @default all
   * @throws AlambicError DATA_UNREADABLE.
   */
  async *predict(images: readonly string[], top?: number): AsyncGenerator<Prediction> {
    const { classes, labels } = this.model.config;
    for (let start = 0; start < images.length; start += BATCH) {
      const names = images.slice(start, start + BATCH);
      const probabilities = await this.#probabilities(names);
      for (const [i, image] of names.entries()) {
        const row = probabilities.subarray(i * classes, (i + 1) * classes);
        const order = Array.from(row, (_, c) => c).sort((a, b) => row[b]! - row[a]!);
        yield {
          image,
          classes: order
            .slice(0, top)
            .map((index) => ({ index, label: labels[index] ?? String(index), probability: row[index]! })),
        };
      }
    }
  }

  dispose(): void {
    this.#evaluator.dispose();
    disposeModel(this.model.state);
  }

  /** float32 [N,classes]. */
  async #probabilities(names: readonly string[]): Promise<Float32Array> {
    const { classes, preprocessing } = this.model.config;
    const { inputSize, interpolation, cropShare } = preprocessing;
    const [height, width, channels] = inputSize;
    const size = height * width * channels;
    const images = new Uint8Array(names.length * size);
    const rule = { interpolation, cropShare };
    const decoded = await Promise.all(
      names.map((name) => decodeImage(name, { channels: channels === 1 ? 1 : 3, size: [height, width], rule })),
    );
    decoded.forEach(({ data }, i) => {
      images.set(data, i * size);
    });
    const { logits } = await this.#evaluator.run(this.model.state, {
      images,
      shape: [names.length, height, width, channels],
      labels: new Int32Array(names.length).fill(-1),
      indices: Int32Array.from(names, (_, i) => i),
      epoch: 0,
      offset: 0,
      nextOffset: names.length,
    });
    return softmaxRows(logits, classes);
  }
}
