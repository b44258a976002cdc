import { access } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import { AlambicError } from '../../errors.ts';
import { readIdxFile } from '../../formats/idx.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { TOKEN } from '../../plugin-host/tokens.ts';
import type { Source } from '../source.ts';
import { memorySource } from './memory.ts';

const options = z.strictObject({
  folder: z
    .string()
    .optional()
    .describe(
      'folder with the four standard files of MNIST and its kin (train-images-idx3-ubyte, …, plain or .gz); own splits: train, test',
    ),
  images: z
    .string()
    .optional()
    .describe('IDX file of uint8 images [N,H,W] or [N,H,W,C], plain or .gz; instead of `folder`'),
  labels: z.string().optional().describe('IDX file of labels [N], plain or .gz; together with `images`'),
  names: z.array(z.string()).optional().describe('class names in the order of the label index; default 0, 1, …'),
});

type Options = z.infer<typeof options>;

const PARTS = { train: 'train', test: 't10k' } as const;

/** MNIST-like IDX files, wholly in memory. Ids are the position, with `train/` or `test/` before it for a folder of four files. */
@injectable()
class IdxSource {
  constructor(
    @inject(TOKEN.Options) private readonly options: Options,
    @inject(TOKEN.BaseFolder) private readonly base: string,
  ) {}

  async open(): Promise<Source> {
    const { folder, images, labels, names } = this.options;
    if (folder === undefined) {
      if (images === undefined || labels === undefined) throw wrongOptions();
      const part = await readPart(resolve(this.base, images), resolve(this.base, labels));
      return memorySource({ name: basename(images), ...part, ...(names === undefined ? {} : { names }) });
    }
    if (images !== undefined || labels !== undefined) throw wrongOptions();
    const root = resolve(this.base, folder);
    const paths: [string, string][] = [];
    for (const prefix of Object.values(PARTS)) {
      paths.push([await findFile(root, `${prefix}-images`, 'idx3'), await findFile(root, `${prefix}-labels`, 'idx1')]);
    }
    const parts = await Promise.all(paths.map(([image, label]) => readPart(image, label)));
    const [train, test] = [parts[0]!, parts[1]!];
    if (train.height !== test.height || train.width !== test.width || train.channels !== test.channels) {
      throw new AlambicError(
        'DATA_SHAPE',
        `expected training and test images of one size in ${root}, got ${train.height}x${train.width} and ${test.height}x${test.width}`,
      );
    }
    const joined = new Uint8Array(train.images.length + test.images.length);
    joined.set(train.images);
    joined.set(test.images, train.images.length);
    return memorySource({
      ...train,
      name: basename(root),
      images: joined,
      labels: [...train.labels, ...test.labels],
      ids: [...Array.from(train.labels, (_, i) => `train/${i}`), ...Array.from(test.labels, (_, i) => `test/${i}`)],
      ...(names === undefined ? {} : { names }),
    });
  }
}

function wrongOptions(): AlambicError {
  return new AlambicError('DATA_OPTIONS', 'expected either `folder`, or both `images` and `labels`', {
    hint: 'A folder holds the four standard files; `images` and `labels` name one pair.',
  });
}

/** The file as it is found in the wild: with `-` or `.` before `idx`, plain or .gz. */
async function findFile(folder: string, stem: string, rank: string): Promise<string> {
  const names = ['-', '.'].flatMap((dash) => ['', '.gz'].map((end) => `${stem}${dash}${rank}-ubyte${end}`));
  for (const name of names) {
    const path = join(folder, name);
    const found = await access(path).then(
      () => true,
      () => false,
    );
    if (found) return path;
  }
  throw new AlambicError('DATA_MISSING', `expected ${names[0]} (or ${names[1]}) in ${folder}, found neither`, {
    hint: 'The folder must hold the four standard files, or name your own with `images` and `labels`.',
  });
}

async function readPart(imagesPath: string, labelsPath: string) {
  const [images, labels] = await Promise.all([readIdxFile(imagesPath), readIdxFile(labelsPath)]);
  const [count, height, width, channels = 1] = images.shape;
  const { data } = images;
  if (images.type !== 'uint8' || !(data instanceof Uint8Array) || images.shape.length < 3 || images.shape.length > 4) {
    throw new AlambicError(
      'FORMAT_IDX',
      `expected uint8 images [N,H,W] or [N,H,W,C], got ${images.type} [${images.shape.join(', ')}]`,
      { at: imagesPath, hint: 'Are `images` and `labels` exchanged?' },
    );
  }
  if (labels.shape.length !== 1 || labels.type.startsWith('float')) {
    throw new AlambicError('FORMAT_IDX', `expected whole labels [N], got ${labels.type} [${labels.shape.join(', ')}]`, {
      at: labelsPath,
      hint: 'Are `images` and `labels` exchanged?',
    });
  }
  if (labels.shape[0] !== count) {
    throw new AlambicError('DATA_SHAPE', `expected one label for each of ${count} images, got ${labels.shape[0]}`, {
      at: labelsPath,
      hint: 'The two files belong to different parts of the data, or one was cut short.',
    });
  }
  return { images: data, height: height!, width: width!, channels, labels: Array.from(labels.data) };
}

export default definePlugin({
  name: 'idx',
  kind: 'source',
  apiVersion: 1,
  description: 'MNIST-like IDX files: an image file and a label file, or a folder of the four standard files.',
  options,
  implementation: IdxSource,
});
