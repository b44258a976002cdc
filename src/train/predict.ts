import { decodeImage } from '../data/decode.ts';
import { Evaluator, softmaxRows } from './evaluate.ts';
import type { SavedModel } from './saved-model.ts';

/** What a network says of an image file. */
export interface ImagePrediction {
  readonly image: string;
  /** Classes from the most to the least probable; probabilities 0..1. */
  readonly classes: readonly { readonly index: number; readonly label: string; readonly probability: number }[];
}

/** Images that go through the network at once. */
const BATCH = 32;

/**
 * Classifies image files, prepared as the network was trained: its size, its interpolation, its normalisation.
 *
 * @param top Classes of each image. @default 3
 * @throws AlambicError DATA_UNREADABLE.
 * @example
 * const model = await openModel(await findModel('runs/my'));
 * for await (const { image, classes } of predictImages(model, ['cat.jpg'])) …
 */
export async function* predictImages(
  model: SavedModel,
  images: readonly string[],
  top = 3,
): AsyncGenerator<ImagePrediction> {
  const { config, backbone, state } = model;
  const { inputSize, mean, std, interpolation, cropShare } = config.preprocessing;
  const [height, width, channels] = inputSize;
  const evaluator = new Evaluator('predict', backbone, { transforms: [], mean, std }, config.classes);
  const size = height * width * channels;
  try {
    for (let start = 0; start < images.length; start += BATCH) {
      const names = images.slice(start, start + BATCH);
      const pixels = new Uint8Array(names.length * size);
      const decoded = await Promise.all(
        names.map((name) =>
          decodeImage(name, {
            channels: channels === 1 ? 1 : 3,
            size: [height, width],
            rule: { interpolation, cropShare },
          }),
        ),
      );
      decoded.forEach(({ data }, i) => {
        pixels.set(data, i * size);
      });
      const positions = Int32Array.from(names, (_, i) => start + i);
      const { logits } = await evaluator.run(state, {
        images: pixels,
        shape: [names.length, height, width, channels],
        labels: new Int32Array(names.length).fill(-1),
        indices: positions,
        epoch: 0,
        offset: start,
        nextOffset: start + names.length,
      });
      const probabilities = softmaxRows(logits, config.classes);
      for (const [i, image] of names.entries()) {
        const row = probabilities.subarray(i * config.classes, (i + 1) * config.classes);
        const order = Array.from(row, (_, c) => c).sort((a, b) => row[b]! - row[a]!);
        yield {
          image,
          classes: order.slice(0, top).map((index) => ({
            index,
            label: config.labels[index] ?? String(index),
            probability: row[index]!,
          })),
        };
      }
    }
  } finally {
    evaluator.dispose();
  }
}
