import type fsPromises from 'node:fs/promises';
import { dirname } from 'node:path';
import { AlambicError } from '../errors.ts';

/** The file system calls that checkpoints and run folders make; injectable, so that tests can fill disks and take rights away. */
export type FileSystem = Pick<
  typeof fsPromises,
  'open' | 'mkdir' | 'rename' | 'rm' | 'readdir' | 'readFile' | 'stat' | 'statfs' | 'utimes' | 'writeFile'
>;

export function errnoOf(error: unknown): string | undefined {
  return error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 2 : 0)} MB`;
}

/**
 * A failed write as an error that says what to do: CHECKPOINT_NO_SPACE, RUN_FOLDER_READ_ONLY, RUN_FOLDER_IS_FILE, TOO_MANY_OPEN_FILES,
 * else WRITE_FAILED with the system's own words. An AlambicError is returned as it is.
 *
 * @param what What was being written, for instance `checkpoint "teacher-e3"`.
 * @param bytes Size of it, where known.
 */
export async function explainWriteError(
  fs: Pick<FileSystem, 'statfs'>,
  cause: unknown,
  what: string,
  path: string,
  bytes?: number,
): Promise<AlambicError> {
  if (cause instanceof AlambicError) return cause;
  const untouched = 'What was saved before is untouched';
  switch (errnoOf(cause)) {
    case 'ENOSPC':
    case 'EDQUOT': {
      const free = await freeBytes(fs, path);
      const needed = bytes === undefined ? '' : `, it needs ${megabytes(bytes)}`;
      const left = free === undefined ? '' : `, ${megabytes(free)} are free`;
      return new AlambicError('CHECKPOINT_NO_SPACE', `no space left for ${what}${needed}${left}`, {
        at: path,
        hint: `Free some space or keep fewer checkpoints (run.keep), then go on with --resume. ${untouched}.`,
        cause,
      });
    }
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return new AlambicError('RUN_FOLDER_READ_ONLY', `${what} cannot be written: no permission to write here`, {
        at: path,
        hint: `Give this user the right to write (ls -ld shows who has it), or choose another run folder. ${untouched}.`,
        cause,
      });
    case 'ENOTDIR':
    case 'EEXIST':
      return new AlambicError('RUN_FOLDER_IS_FILE', `${what} needs a folder, but there is a file of that name`, {
        at: path,
        hint: 'Choose another run folder, or move the file away.',
        cause,
      });
    case 'EMFILE':
    case 'ENFILE':
      return new AlambicError('TOO_MANY_OPEN_FILES', `${what} cannot be written: too many files are open`, {
        at: path,
        hint: `Raise the limit (ulimit -n). ${untouched}.`,
        cause,
      });
    default: {
      const words = cause instanceof Error ? cause.message : String(cause);
      return new AlambicError('WRITE_FAILED', `${what} could not be written: ${words}`, {
        at: path,
        hint: `Check the disk and the path. ${untouched}.`,
        cause,
      });
    }
  }
}

/** Free bytes on the disk of the nearest folder that exists. */
async function freeBytes(fs: Pick<FileSystem, 'statfs'>, path: string): Promise<number | undefined> {
  for (let folder = path; ; ) {
    try {
      const { bavail, bsize } = await fs.statfs(folder);
      return bavail * bsize;
    } catch {
      // Not there yet, or statfs is not supported: ask one level up, and leave the number out in the end.
      const parent = dirname(folder);
      if (parent === folder) return undefined;
      folder = parent;
    }
  }
}
