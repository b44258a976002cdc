import { basename, dirname } from 'node:path';
import { identityToText, thisProcess } from '../process-identity.ts';
import { errnoOf, explainWriteError, type FileSystem } from './file-errors.ts';

/**
 * Makes a folder, or replaces one, so that a kill, a crash or a full disk at any instant leaves the old one or the new one, whole.
 * `write` fills a folder aside; then it is brought to the disk and renamed into place. An old folder is moved aside before and removed after.
 * What a kill leaves over is named `<folder>.tmp-<pid>…` or `.old-<pid>…`; `cleanLeftovers` knows what to do with each.
 *
 * @param what What is being written, for messages: `checkpoint "e3"`.
 * @param bytes Its size, for the message of a full disk.
 * @param write Fills the folder aside; must sync each file itself.
 * @throws AlambicError see `explainWriteError`; the old folder is untouched then.
 */
export async function replaceFolder<T>(
  fs: FileSystem,
  folder: string,
  { what, bytes }: { readonly what: string; readonly bytes: number },
  write: (aside: string) => Promise<T>,
): Promise<T> {
  const parent = dirname(folder);
  const owner = identityToText(thisProcess());
  const aside = `${folder}.tmp-${owner}`;
  const old = `${folder}.old-${owner}`;
  try {
    await fs.mkdir(parent, { recursive: true });
    const existing = await statOrUndefined(fs, folder);
    if (existing !== undefined && !existing.isDirectory())
      throw Object.assign(new Error(`${basename(folder)} is a file`), { code: 'EEXIST' });
    await fs.rm(aside, { recursive: true, force: true });
    await fs.mkdir(aside);
    const result = await write(aside);
    await syncFolder(fs, aside);
    if (existing !== undefined) {
      await fs.rm(old, { recursive: true, force: true });
      await fs.rename(folder, old);
    }
    try {
      await fs.rename(aside, folder);
    } catch (error) {
      if (existing !== undefined) await fs.rename(old, folder);
      throw error;
    }
    await syncFolder(fs, parent);
    // If this fails the folder is a leftover, which the next search for checkpoints removes.
    if (existing !== undefined) await fs.rm(old, { recursive: true, force: true }).catch(() => undefined);
    return result;
  } catch (error) {
    // The disk that refused the write may refuse this too; what remains is a leftover, and the first error is the one to tell.
    await fs.rm(aside, { recursive: true, force: true }).catch(() => undefined);
    throw await explainWriteError(fs, error, what, folder, bytes);
  }
}

/** Deletes a folder. It is renamed first, so that a kill halfway leaves a leftover, not a damaged folder under its good name. */
export async function removeFolder(fs: FileSystem, folder: string): Promise<void> {
  const gone = `${folder}.gone-${identityToText(thisProcess())}`;
  await fs.rm(gone, { recursive: true, force: true });
  await fs.rename(folder, gone);
  await fs.rm(gone, { recursive: true, force: true });
}

/** `undefined` where there is nothing of that name. */
export async function statOrUndefined(fs: Pick<FileSystem, 'stat'>, path: string) {
  try {
    return await fs.stat(path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return undefined;
    throw error;
  }
}

/** Brings renames and new files of a folder to the disk. Windows does not open folders and orders these by itself. */
export async function syncFolder(fs: Pick<FileSystem, 'open'>, folder: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await fs.open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
