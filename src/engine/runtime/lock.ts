import { randomUUID } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AlambicError } from '../../errors.ts';
import { isAlive, type ProcessIdentity, thisProcess } from '../../process-identity.ts';

/** Who holds a lock. */
interface Holder extends ProcessIdentity {
  /** Tells two holds of one process apart. */
  readonly token: string;
}

export interface LockOptions {
  /** Called once when somebody else holds the lock. */
  readonly onWait?: (holder: string) => void;
  /** Looked at while waiting: true ends the wait without the lock, since what it was for is done. */
  readonly isDone?: () => boolean;
  /** Longest wait in ms. @default 3 600 000 (an hour) */
  readonly timeout?: number;
}

const POLL = 250;
/** A holder on another machine cannot be asked whether it lives; it touches its lock so often. */
const BEAT = 5_000;
const SILENCE = 60_000;

/**
 * Runs `action` while this process alone holds `<folder>/install.lock`. A lock whose process has died is taken over.
 *
 * @returns what `action` gives, or undefined where `isDone` ended the wait
 * @throws AlambicError RUNTIME_LOCKED after `timeout`, RUNTIME_CACHE where the folder cannot be written to.
 */
export async function withLock<T>(
  folder: string,
  action: () => Promise<T>,
  options: LockOptions = {},
): Promise<T | undefined> {
  const path = join(folder, 'install.lock');
  const self: Holder = { ...thisProcess(), token: randomUUID() };
  makeFolder(folder);
  const end = Date.now() + (options.timeout ?? 3_600_000);
  for (let told = false; !acquire(path, self); ) {
    const holder = readHolder(path);
    if (holder !== undefined && isDead(path, holder)) {
      breakLock(path, holder);
      continue;
    }
    if (!told && holder !== undefined) {
      told = true;
      options.onWait?.(`process ${holder.pid}${holder.host === self.host ? '' : ' of another machine'}`);
    }
    if (Date.now() >= end) {
      const who =
        holder === undefined
          ? 'somebody'
          : `process ${holder.pid}${holder.host === self.host ? '' : ' of another machine'}`;
      throw new AlambicError('RUNTIME_LOCKED', `expected to get the lock ${path}, which ${who} still holds`, {
        hint: 'Wait until that installation ends, or end it. If no alambic is running, delete the file.',
      });
    }
    await sleep(POLL);
    if (options.isDone?.() === true) return undefined;
  }
  const beat = setInterval(() => touch(path), BEAT);
  beat.unref();
  try {
    return await action();
  } finally {
    clearInterval(beat);
    if (readHolder(path)?.token === self.token) rmSync(path, { force: true });
  }
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true });
  } catch (error) {
    throw cacheFailure(folder, error);
  }
}

/** The cache cannot be written to. */
export function cacheFailure(folder: string, cause: unknown): AlambicError {
  return new AlambicError('RUNTIME_CACHE', `the cache folder cannot be written to: ${(cause as Error).message}`, {
    hint: 'Set ALAMBIC_CACHE_DIR to a folder that you may write to.',
    at: folder,
    cause,
  });
}

/** Writes the holder aside and links it into place, so that a lock is never seen half written. */
function acquire(path: string, self: Holder): boolean {
  const aside = `${path}.${self.token}`;
  try {
    writeFileSync(aside, JSON.stringify(self));
    try {
      linkSync(aside, path);
      return true;
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code;
      if (code === 'EEXIST') return false;
      if (code === 'ENOENT' || code === 'EACCES' || code === 'ENOSPC') throw error;
      // A file system without links: created exclusively instead; the reader takes an empty lock for one just being written.
      return createExclusively(path, self);
    }
  } catch (error) {
    throw cacheFailure(path, error);
  } finally {
    rmSync(aside, { force: true });
  }
}

function createExclusively(path: string, self: Holder): boolean {
  try {
    writeFileSync(path, JSON.stringify(self), { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function readHolder(path: string): Holder | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Holder;
  } catch {
    // Gone meanwhile, or damaged by a crash of the machine: the latter is known by its age.
    return ageOf(path) > SILENCE ? { ...thisProcess(), pid: 0, token: '' } : undefined;
  }
}

function isDead(path: string, holder: Holder): boolean {
  if (holder.pid === 0) return true;
  const alive = isAlive(holder);
  // A process of another machine cannot be asked: it is dead when its lock has not been touched for long.
  return alive === undefined ? ageOf(path) > SILENCE : !alive;
}

/** Takes a dead lock away; if a living one came in between, puts that back. */
function breakLock(path: string, dead: Holder): void {
  const aside = `${path}.broken-${randomUUID()}`;
  try {
    renameSync(path, aside);
  } catch (error) {
    // Another waiter was faster.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw cacheFailure(path, error);
  }
  const taken = readHolder(aside);
  if (taken !== undefined && taken.token !== dead.token) {
    try {
      linkSync(aside, path);
    } catch {
      // The lock is held again already.
    }
  }
  rmSync(aside, { force: true });
}

function touch(path: string): void {
  const now = new Date();
  try {
    utimesSync(path, now, now);
  } catch {
    // Deleted by the user: the installation goes on, the final rename is atomic anyway.
  }
}

function ageOf(path: string): number {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? 0 : Date.now() - stat.mtimeMs;
}
