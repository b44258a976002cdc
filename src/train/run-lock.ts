import { randomUUID } from 'node:crypto';
import nodeFs from 'node:fs/promises';
import { AlambicError } from '../errors.ts';
import { isAlive, type ProcessIdentity, thisProcess } from '../process-identity.ts';
import { errnoOf, type FileSystem } from './file-errors.ts';
import { statOrUndefined } from './folder-replacement.ts';

/** How often a living run touches its lock. */
const HEARTBEAT_MS = 30_000;
/** Age without a touch at which a lock of another machine counts as dead; a lock of this machine is asked by its process. */
const FOREIGN_LOCK_MS = 300_000;

/** Age up to which a file that cannot be read yet may still be being written. */
const WRITING_MS = 10_000;

/** A held lock. */
export interface RunLock {
  /** Whether a dead process's lock was taken over. */
  readonly takenOver: boolean;
  release(): Promise<void>;
}

interface LockFile extends ProcessIdentity {
  readonly id: string;
  readonly since: string;
}

/**
 * Takes a lock file for this process; one run folder, one process. The lock of a process that is dead is taken over.
 *
 * @throws AlambicError RUN_LOCKED with the pid of the holder; the file system's own errors as they are.
 */
export async function acquireRunLock(
  path: string,
  { fs = nodeFs }: { readonly fs?: FileSystem } = {},
): Promise<RunLock> {
  const mine: LockFile = { ...thisProcess(), id: randomUUID(), since: new Date().toISOString() };
  const text = `${JSON.stringify(mine)}\n`;
  if (await createFile(fs, path, text)) return holdLock(fs, path, mine.id, false);
  await throwIfAlive(fs, path);
  await takeOver(fs, path, mine.id, text);
  return holdLock(fs, path, mine.id, true);
}

/** Creates a file; false where there is one already. */
async function createFile(fs: FileSystem, path: string, text: string): Promise<boolean> {
  try {
    await fs.writeFile(path, text, { flag: 'wx' });
    return true;
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false;
    throw error;
  }
}

/**
 * Puts our lock in the place of a dead one. Several may find it dead at once: a second lock, held for a moment only, lets one of them
 * look again and replace it by a rename, so that the place is never empty for somebody else to slip in.
 */
async function takeOver(fs: FileSystem, path: string, id: string, text: string): Promise<void> {
  const gate = `${path}.takeover`;
  if (!(await createFile(fs, gate, text))) {
    const stat = await statOrUndefined(fs, gate);
    if (stat !== undefined && Date.now() - stat.mtimeMs < WRITING_MS) throw lockedError(path, undefined);
    // Whoever held the gate died in that moment.
    await fs.rm(gate, { force: true });
    if (!(await createFile(fs, gate, text))) throw lockedError(path, undefined);
  }
  try {
    await throwIfAlive(fs, path);
    await fs.writeFile(`${path}.new-${id}`, text);
    await fs.rename(`${path}.new-${id}`, path);
  } finally {
    await fs.rm(gate, { force: true });
  }
}

function holdLock(fs: FileSystem, path: string, id: string, takenOver: boolean): RunLock {
  const timer = setInterval(() => {
    const now = new Date();
    // A touch that fails (the folder was deleted under the run) shows in the next save, with a better message.
    fs.utimes(path, now, now).catch(() => undefined);
  }, HEARTBEAT_MS);
  timer.unref();
  return {
    takenOver,
    async release() {
      clearInterval(timer);
      // Only our own: after a wrong takeover the file belongs to somebody else.
      if ((await readLock(fs, path))?.id === id) await fs.rm(path, { force: true });
    },
  };
}

/** Throws RUN_LOCKED where the lock's process lives. */
async function throwIfAlive(fs: FileSystem, path: string): Promise<void> {
  const stat = await statOrUndefined(fs, path);
  const held = await readLock(fs, path);
  const age = stat === undefined ? 0 : Date.now() - stat.mtimeMs;
  // An unreadable lock is one that is being written at this moment, or was cut off by a crash.
  const alive = held === undefined ? age < WRITING_MS : (isAlive(held) ?? age < FOREIGN_LOCK_MS);
  if (alive) throw lockedError(path, held);
}

async function readLock(fs: FileSystem, path: string): Promise<LockFile | undefined> {
  try {
    const json = JSON.parse(await fs.readFile(path, 'utf8')) as LockFile | null;
    return typeof json?.pid === 'number' ? json : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function lockedError(path: string, held: LockFile | undefined): AlambicError {
  const who = held === undefined ? 'another process' : `process ${held.pid} (since ${held.since})`;
  return new AlambicError('RUN_LOCKED', `${who} is training in this run folder`, {
    at: path,
    hint: 'Wait for it, stop it, or give this run a folder of its own.',
  });
}
