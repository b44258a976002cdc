import { readdir, realpath, stat } from 'node:fs/promises';
import { basename, extname, join, resolve } from 'node:path';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import { AlambicError } from '../../errors.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { TOKEN } from '../../plugin-host/tokens.ts';
import { decodeImage } from '../decode.ts';
import { matchLabels } from '../labels.ts';
import { compareNaturally } from '../natural-order.ts';
import type { DecodedImage, ResizeRule, SampleInfo, Source } from '../source.ts';

/** File endings that sharp decodes. */
export const IMAGE_EXTENSIONS = ['.jpg', '.jpeg', '.png', '.webp', '.gif', '.avif', '.tif', '.tiff'] as const;

const options = z.strictObject({
  folder: z
    .string()
    .describe('folder with one folder for each class, images at any depth below; relative to the recipe'),
  splits: z
    .array(z.string())
    .optional()
    .describe(
      'names of folders above the classes (train, val): folder/<split>/<class>/…; the ids then begin with them',
    ),
  labels: z
    .array(z.string())
    .optional()
    .describe('class names in the order of the label index; must be the names of the folders; default: natural sort'),
  channels: z
    .union([z.literal(1), z.literal(3)])
    .default(3)
    .describe('grey or RGB'),
  background: z.string().default('white').describe('colour behind transparent pixels'),
  resize: z
    .union([z.int().positive(), z.tuple([z.int().positive(), z.int().positive()])])
    .optional()
    .describe('size or [height, width] to decode to; without it the loader resizes to the input size'),
  fit: z
    .enum(['stretch', 'cover'])
    .default('stretch')
    .describe('with `resize`: stretch, or keep the aspect and cut the centre'),
});

type Options = z.infer<typeof options>;

/** Images in a folder for each class. Ids are paths relative to the folder, with `/`. */
@injectable()
class ImageFolderSource {
  constructor(
    @inject(TOKEN.Options) private readonly options: Options,
    @inject(TOKEN.BaseFolder) private readonly base: string,
  ) {}

  async open(): Promise<Source> {
    const { folder, splits, labels: given, channels, background, resize, fit } = this.options;
    const root = resolve(this.base, folder);
    const prefixes = splits ?? [''];
    const classes = new Set<string>();
    for (const prefix of prefixes) for (const name of await classFolders(join(root, prefix))) classes.add(name);
    const found = [...classes].sort(compareNaturally);
    if (found.length === 0) throw emptyFolder(root, 'one folder for each class');
    const labels = given === undefined ? found : matchLabels(given, found, root);

    const items: SampleInfo[] = [];
    for (const prefix of prefixes) {
      for (const [label, name] of labels.entries()) {
        const relative = prefix === '' ? name : `${prefix}/${name}`;
        const ids = (await listImages(root, relative)).sort(compareNaturally);
        for (const id of ids) items.push({ id, label });
      }
    }
    if (items.length === 0) throw emptyFolder(root, `images (${IMAGE_EXTENSIONS.join(', ')}) below the class folders`);

    const size = typeof resize === 'number' ? ([resize, resize] as const) : resize;
    const path = (index: number) => join(root, ...items[index]!.id.split('/'));
    const source: Source = {
      name: basename(root),
      labels,
      items,
      read: (index): Promise<DecodedImage> =>
        decodeImage(
          path(index),
          { channels, background, ...(size === undefined ? {} : { size, rule: { fit } }) },
          items[index]!.id,
        ),
    };
    if (size !== undefined) return source;
    return {
      ...source,
      readResized: (index, [height, width, wanted], rule: ResizeRule) =>
        decodeImage(
          path(index),
          { channels: wanted === 1 ? 1 : channels, background, size: [height, width], rule },
          items[index]!.id,
        ),
    };
  }
}

function emptyFolder(root: string, what: string): AlambicError {
  return new AlambicError('DATA_EMPTY', `expected ${what} in ${root}, found none`, {
    hint: 'The layout is folder/<class>/…/image.jpg; with `splits: [train, val]` it is folder/<split>/<class>/…/image.jpg.',
  });
}

async function classFolders(folder: string): Promise<string[]> {
  const entries = await readdir(folder).catch((error: unknown) => {
    throw new AlambicError(
      'DATA_MISSING',
      `expected a folder of images at ${folder}, got ${(error as Error).message}`,
      {
        hint: 'Check the path; relative paths start at the folder of the recipe.',
        cause: error,
      },
    );
  });
  const names: string[] = [];
  for (const name of entries) {
    if (!isHidden(name) && (await kindOf(join(folder, name))) === 'folder') names.push(name);
  }
  return names;
}

function isHidden(name: string): boolean {
  return name.startsWith('.') || name === '__MACOSX';
}

/** What a path leads to, links followed; a link that leads nowhere counts as a file, so that reading it reports it. */
async function kindOf(path: string): Promise<'folder' | 'file'> {
  const info = await stat(path).catch(() => undefined);
  return info?.isDirectory() === true ? 'folder' : 'file';
}

/** Ids of the images below a folder. A link back to a folder on the way down is not followed, so a circle ends. */
async function listImages(root: string, relative: string, above: readonly string[] = []): Promise<string[]> {
  const folder = join(root, ...relative.split('/'));
  const real = await realpath(folder).catch(() => undefined);
  if (real === undefined || above.includes(real)) return [];
  const ids: string[] = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (isHidden(entry.name)) continue;
    const id = `${relative}/${entry.name}`;
    const isFolder = entry.isSymbolicLink()
      ? (await kindOf(join(folder, entry.name))) === 'folder'
      : entry.isDirectory();
    if (isFolder) ids.push(...(await listImages(root, id, [...above, real])));
    else if ((IMAGE_EXTENSIONS as readonly string[]).includes(extname(entry.name).toLowerCase())) ids.push(id);
  }
  return ids;
}

export default definePlugin({
  name: 'image-folder',
  kind: 'source',
  apiVersion: 1,
  description: 'Image files in one folder for each class (JPEG, PNG, WebP, GIF, AVIF, TIFF).',
  options,
  implementation: ImageFolderSource,
});
