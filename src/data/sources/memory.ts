import { AlambicError } from '../../errors.ts';
import type { DecodedImage, SampleInfo, Source } from '../source.ts';

export interface MemorySourceInput {
  readonly name?: string;
  /** uint8 [N,H,W,C], row-major. */
  readonly images: Uint8Array;
  readonly height: number;
  readonly width: number;
  /** @default 1 */
  readonly channels?: number;
  /** [N]: index of the class, -1 = none. */
  readonly labels: ArrayLike<number>;
  /** Class names. @default '0', '1', … up to the largest label */
  readonly names?: readonly string[];
  /** [N], unique. @default '0', '1', … */
  readonly ids?: readonly string[];
}

/**
 * A source over arrays in memory: reads without waiting.
 *
 * Throws `DATA_SHAPE` where the arrays do not fit each other, `DATA_LABEL` for a label without a name.
 *
 * @example
 * const source = memorySource({ images: new Uint8Array(2 * 28 * 28), height: 28, width: 28, labels: [0, 1] });
 */
export function memorySource(input: MemorySourceInput): Source {
  const { name = 'memory', images, height, width, channels = 1, labels, ids } = input;
  const itemBytes = height * width * channels;
  const count = labels.length;
  if (images.length !== count * itemBytes) {
    throw new AlambicError(
      'DATA_SHAPE',
      `expected ${count * itemBytes} bytes for ${name}: ${count} labels x [${height}, ${width}, ${channels}], got ${images.length}`,
      { hint: 'There must be one label for each image, and the images must be uint8 [N,H,W,C].' },
    );
  }
  if (ids !== undefined && ids.length !== count) {
    throw new AlambicError('DATA_SHAPE', `expected ${count} ids for ${name}, one for each label, got ${ids.length}`);
  }
  const largest = Array.from(labels).reduce((max, label) => Math.max(max, label), -1);
  const names = input.names ?? Array.from({ length: largest + 1 }, (_, i) => String(i));
  const items = Array.from(labels, (label, i): SampleInfo => {
    if (!Number.isInteger(label) || label < -1 || label >= names.length) {
      throw new AlambicError(
        'DATA_LABEL',
        `expected labels from -1 to ${names.length - 1} in ${name}, got ${label} at item ${i}`,
        { hint: 'Give one name for each class, in the order of the label index.' },
      );
    }
    return { id: ids?.[i] ?? String(i), label };
  });
  const readSync = (index: number): DecodedImage => ({
    data: images.subarray(index * itemBytes, (index + 1) * itemBytes),
    height,
    width,
    channels,
  });
  return { name, labels: names, items, readSync, read: async (index) => readSync(index) };
}
