import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, statSync } from 'node:fs';
import {
  copyFile,
  constants as fsConstants,
  mkdir,
  open,
  readdir,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { AlambicError } from '../../errors.ts';
import { isOn, type RuntimeContext, runtimeContext, runtimeFolder } from './context.ts';
import { isNoSpace, noSpace, type Progress } from './download.ts';
import { checkDriver } from './driver.ts';
import { type FetchedWheel, fetchWheel, localWheel } from './fetch-wheel.ts';
import { findInCache, installedFolder, type RuntimeLocation, type RuntimeRecord } from './find.ts';
import { refusalOf } from './library-files.ts';
import { loadLibrary } from './load.ts';
import { cacheFailure, withLock } from './lock.ts';
import type { Bundle, Wheel } from './manifest.ts';
import { libraryNames, platformOf } from './platform.ts';
import { formatBytes, progressLines } from './progress.ts';
import { readZipEntries, unpackEntry } from './zip.ts';

export interface InstallOptions {
  /** With CUDA (Linux x86_64 only). @default false */
  readonly gpu?: boolean | undefined;
  /** Use only wheels at hand. @default false, or ALAMBIC_OFFLINE */
  readonly offline?: boolean | undefined;
  /** A wheel, a folder with wheels, a Python environment or a folder with the libraries, to take them from. */
  readonly from?: string | undefined;
  /** Called as bytes arrive. Without it `say` gets a line per 10 %. */
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  /** Gets a line for each thing that is done. @default silent */
  readonly say?: ((line: string) => void) | undefined;
  readonly context?: Partial<RuntimeContext> | undefined;
}

/** Kept free beside what is written, in bytes. */
const MARGIN = 64e6;
const STAGING = '.installing-';
const REMOVED = '.removed-';

/**
 * Installs TensorFlow's libraries into the cache and gives their place. Of several installers one works and the others wait and
 * use its result. Everything is unpacked aside and appears in one rename: what is there is whole.
 *
 * @throws AlambicError RUNTIME_PLATFORM, RUNTIME_DRIVER, RUNTIME_OFFLINE, RUNTIME_NO_INDEX, RUNTIME_DOWNLOAD, RUNTIME_BAD_HASH,
 * RUNTIME_NO_SPACE, RUNTIME_LOCKED, RUNTIME_CACHE.
 * @example
 * const { folder } = await installRuntime({ say: (line) => process.stderr.write(`${line}\n`) });
 */
export async function installRuntime(options: InstallOptions = {}): Promise<RuntimeLocation> {
  const context = runtimeContext(options.context);
  const platform = platformOf(context.machine);
  const gpu = options.gpu ?? false;
  const bundle = context.bundle(platform, gpu ? 'gpu' : 'cpu');
  const say = options.say ?? (() => undefined);
  if (gpu && !isOn(context.env, 'ALAMBIC_ANY_DRIVER')) checkDriver(await context.driver());
  const place = installedFolder(bundle, context);
  const find = () => findInstalled(bundle, context);
  const result = await withLock(
    runtimeFolder(context),
    async () => {
      const present = find();
      if (present !== undefined) return present;
      await removeLeftovers(runtimeFolder(context));
      await build(bundle, place, { ...options, context, say });
      say(`TensorFlow ${bundle.version} is installed in ${place}`);
      return find();
    },
    {
      onWait: (holder) => say(`another alambic (${holder}) is installing TensorFlow; waiting for it`),
      isDone: () => find() !== undefined,
    },
  );
  const location = result ?? find();
  if (location === undefined) {
    throw new AlambicError('RUNTIME_CACHE', `expected the installed libraries in ${place}, they are not usable`, {
      hint: 'Something else changes the cache folder: set ALAMBIC_CACHE_DIR to one of your own, and install again.',
    });
  }
  return location;
}

type BuildOptions = InstallOptions & { readonly context: RuntimeContext; readonly say: (line: string) => void };

/** The runtime of this kind, whichever the machine would prefer. */
function findInstalled({ platform, kind }: Bundle, context: RuntimeContext): RuntimeLocation | undefined {
  const location = findInCache(platform, kind === 'gpu', context);
  return location?.kind === kind ? location : undefined;
}

/** Fetches, unpacks aside and renames. */
async function build(bundle: Bundle, place: string, options: BuildOptions): Promise<void> {
  const { context, say } = options;
  const base = dirname(place);
  const downloads = join(base, 'downloads');
  const staging = join(base, `${STAGING}${process.pid}-${randomUUID().slice(0, 8)}`);
  try {
    const ready = options.from === undefined ? undefined : foundLibraries(options.from, bundle, context);
    const used: FetchedWheel[] = [];
    await mkdir(staging, { recursive: true });
    if (ready === undefined) {
      announce(bundle, place, options);
      await checkSpace(bundle, downloads, options);
      const onProgress = options.onProgress ?? progressLines(say);
      const fetching = {
        context,
        say,
        onProgress,
        from: options.from,
        offline: options.offline ?? isOn(context.env, 'ALAMBIC_OFFLINE'),
      };
      for (const wheel of bundle.wheels) used.push(await fetchWheel(wheel, downloads, fetching));
      say('unpacking');
      for (const [i, { path }] of used.entries()) await unpackWheel(bundle.wheels[i]!, path, staging);
    } else {
      say(`copying the libraries of ${ready}`);
      await copyLibraries(ready, bundle, staging);
    }
    for (const { path, target } of bundle.links) {
      await mkdir(dirname(join(staging, path)), { recursive: true });
      await symlink(target, join(staging, path));
    }
    const lack = refusalOf(join(staging, 'tensorflow'), bundle.platform, context.leastBytes);
    if (lack !== undefined) throw unpackFailure(new Error(lack));
    await complete(bundle, staging, used);
    await rm(place, { recursive: true, force: true });
    await rename(staging, place);
    await syncPath(base);
    await rm(downloads, { recursive: true, force: true });
  } catch (error) {
    await rm(staging, { recursive: true, force: true });
    // Parts of downloads are kept for the next attempt; an empty folder is not.
    if (existsSync(downloads) && (await readdir(downloads)).length === 0) await rmdir(downloads);
    if (isNoSpace(error)) throw noSpace(base, error);
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'EACCES' || code === 'EROFS' || code === 'EPERM') throw cacheFailure(base, error);
    throw error;
  }
}

/** Says what is fetched, and how much it is. */
function announce(bundle: Bundle, place: string, { say, from, context }: BuildOptions): void {
  const missing = bundle.wheels.filter((wheel) => localWheel(wheel, { from, context }) === undefined);
  const bytes = missing.reduce((sum, wheel) => sum + wheel.files[0]!.bytes, 0);
  const unpacked = bundle.wheels.reduce((sum, wheel) => sum + wheel.unpackedBytes, 0);
  say(
    `installing TensorFlow ${bundle.version} (${bundle.kind.toUpperCase()}): ${formatBytes(bytes)} to download, ` +
      `${formatBytes(unpacked)} on disk, in ${place}`,
  );
  if (bundle.wheels.length === 1) return;
  for (const wheel of bundle.wheels) say(`  ${wheel.project} ${wheel.version}: ${formatBytes(wheel.files[0]!.bytes)}`);
}

async function checkSpace(bundle: Bundle, downloads: string, { context, from }: BuildOptions): Promise<void> {
  let needed = MARGIN;
  for (const wheel of bundle.wheels) {
    needed += wheel.unpackedBytes;
    if (localWheel(wheel, { from, context }) !== undefined) continue;
    const path = join(downloads, wheel.files[0]!.file);
    needed += wheel.files[0]!.bytes - (bytesOf(path) || bytesOf(`${path}.part`));
  }
  const base = dirname(downloads);
  const free = await context.freeBytes(base);
  if (free >= needed) return;
  throw new AlambicError(
    'RUNTIME_NO_SPACE',
    `expected ${formatBytes(needed)} free for TensorFlow, there are ${formatBytes(free)}`,
    {
      hint: 'Free some space, or set ALAMBIC_CACHE_DIR to a folder on a larger disk.',
      at: base,
    },
  );
}

function bytesOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

async function unpackWheel(wheel: Wheel, path: string, folder: string): Promise<void> {
  const entries = (await readZipEntries(path)).filter(
    ({ name }) => wheel.members.test(name) && !name.split('/').includes('..'),
  );
  for (const entry of entries) {
    const target = join(folder, entry.name);
    await mkdir(dirname(target), { recursive: true });
    const mode = /\/bin\/|\.(so|dylib)/.test(entry.name) ? 0o755 : 0o644;
    await unpackEntry(path, entry, target, mode).catch((error: Error) => {
      throw isNoSpace(error) ? error : unpackFailure(error);
    });
    await syncPath(target);
  }
}

/** A wheel of the pinned hash that does not hold what it should: the manifest is wrong, or the disk damaged it since. */
function unpackFailure(cause: Error): AlambicError {
  return new AlambicError('RUNTIME_UNPACK', `expected to unpack TensorFlow: ${cause.message}`, {
    hint: 'Run `alambic runtime remove`, then `alambic runtime install`; if it stays so, the disk may be damaged.',
    cause,
  });
}

/** The folder with the libraries below what `--from` names; undefined where that is a wheel or a folder of wheels. */
function foundLibraries(from: string, bundle: Bundle, { leastBytes }: RuntimeContext): string | undefined {
  if (!existsSync(from)) {
    throw new AlambicError('RUNTIME_NOT_FOUND', `expected ${from} to be there`, {
      hint: 'Check the path behind --from.',
    });
  }
  if (!statSync(from).isDirectory() || readdirSync(from).some((name) => name.endsWith('.whl'))) return undefined;
  const pythons = existsSync(join(from, 'lib'))
    ? readdirSync(join(from, 'lib')).filter((name) => name.startsWith('python'))
    : [];
  const folders = [
    '.',
    'tensorflow',
    'lib',
    ...pythons.map((name) => join('lib', name, 'site-packages', 'tensorflow')),
  ];
  const found = folders
    .map((name) => join(from, name))
    .find((folder) => refusalOf(folder, bundle.platform, leastBytes) === undefined);
  if (found === undefined) {
    throw new AlambicError('RUNTIME_NOT_FOUND', `--from: ${refusalOf(from, bundle.platform, leastBytes)}`, {
      hint: 'Name a wheel of TensorFlow, a folder with such wheels, a Python environment, or a folder with the two libraries.',
    });
  }
  if (bundle.kind === 'gpu') {
    throw new AlambicError(
      'RUNTIME_NOT_FOUND',
      'expected a folder with wheels behind --from, since --gpu needs CUDA too',
      {
        hint: `To use an environment that has CUDA's libraries as it is, set ALAMBIC_TENSORFLOW_DIR=${found}.`,
      },
    );
  }
  return found;
}

async function copyLibraries(from: string, bundle: Bundle, staging: string): Promise<void> {
  // Only the library itself can tell its version.
  loadLibrary(from);
  const { framework, cc } = libraryNames(bundle.platform);
  await mkdir(join(staging, 'tensorflow'));
  for (const name of [framework, cc]) {
    const target = join(staging, 'tensorflow', name);
    await copyFile(join(from, name), target, fsConstants.COPYFILE_FICLONE);
    await syncPath(target);
  }
}

/** Writes down what the runtime consists of; checked whenever it is looked for. */
async function complete(bundle: Bundle, staging: string, used: readonly FetchedWheel[]): Promise<void> {
  const files: Record<string, number> = {};
  for (const entry of await readdir(staging, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath ?? entry.path, entry.name);
    files[relative(staging, path)] = (await stat(path)).size;
  }
  const { version, kind, platform } = bundle;
  const wheels = used.map(({ file: { file, sha256 } }) => ({ file, sha256 }));
  const record: RuntimeRecord = { version, kind, platform, files, wheels };
  const path = join(staging, 'runtime.json');
  await writeFile(path, `${JSON.stringify(record, null, 2)}\n`);
  await syncPath(path);
  await syncPath(staging);
}

async function syncPath(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** What installers that were killed left behind; we hold the lock, so none of it is in use. Parts of downloads stay. */
async function removeLeftovers(base: string): Promise<void> {
  for (const name of await readdir(base)) {
    const isLeftover = name.startsWith(STAGING) || name.startsWith(REMOVED) || name.startsWith('install.lock.');
    if (isLeftover) await rm(join(base, name), { recursive: true, force: true });
  }
}

/** What `removeRuntime` took away. */
export interface Removal {
  readonly folders: readonly string[];
  readonly bytes: number;
}

/**
 * Removes every runtime and all downloads from the cache; Pythons and named folders are left alone.
 *
 * @throws AlambicError RUNTIME_LOCKED where an installation does not end, RUNTIME_CACHE.
 */
export async function removeRuntime(
  options: { context?: Partial<RuntimeContext>; say?: (line: string) => void } = {},
): Promise<Removal> {
  const context = runtimeContext(options.context);
  const base = runtimeFolder(context);
  if (!existsSync(base)) return { folders: [], bytes: 0 };
  const removed = await withLock(
    base,
    async () => {
      await removeLeftovers(base);
      const folders: string[] = [];
      let bytes = 0;
      for (const name of await readdir(base)) {
        if (name !== 'downloads' && !name.startsWith('tensorflow-')) continue;
        const path = join(base, name);
        bytes += await folderBytes(path);
        // Renamed first: a runtime is there or it is not, never in part.
        const aside = join(base, `${REMOVED}${basename(path)}-${randomUUID().slice(0, 8)}`);
        await rename(path, aside);
        await rm(aside, { recursive: true, force: true });
        folders.push(path);
      }
      return { folders, bytes };
    },
    { onWait: (holder) => options.say?.(`an installation is going on (${holder}); waiting for its end`) },
  );
  return removed ?? { folders: [], bytes: 0 };
}

/** Bytes of all files below a folder. */
export async function folderBytes(folder: string): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) bytes += (await stat(join(entry.parentPath ?? entry.path, entry.name))).size;
  }
  return bytes;
}
