import nodeFs from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AlambicError } from '../errors.ts';
import {
  type Checkpoint,
  type CheckpointSummary,
  readCheckpoint,
  readCheckpointSummary,
  statOrUndefined,
  syncFolder,
} from './checkpoint.ts';
import { errnoOf, type FileSystem } from './file-errors.ts';
import { identityFromText, identityToText, isAlive, thisProcess } from './process-identity.ts';

/** Age at which a leftover of another machine, whose processes cannot be asked, counts as dead. */
const FOREIGN_LEFTOVER_MS = 3_600_000;

export interface SearchOptions {
  readonly fs?: FileSystem;
  /** Hears of every damaged checkpoint that was passed over. */
  readonly warn?: (code: string, message: string) => void;
}

/**
 * The latest good checkpoint of a run, every hash checked; `undefined` where there is none yet.
 * Damaged ones are passed over with a warning. Leftovers of killed processes are cleaned away, those of living ones are left alone.
 *
 * @param runFolder Run folder, or its folder `checkpoints`.
 * @throws AlambicError CHECKPOINT_DAMAGED where there are checkpoints and none is good; CHECKPOINT_VERSION.
 */
export async function findLatestCheckpoint(
  runFolder: string,
  { fs = nodeFs, warn = () => undefined }: SearchOptions = {},
): Promise<Checkpoint | undefined> {
  const folder = await checkpointsFolder(fs, runFolder);
  if (folder === undefined) return undefined;
  await cleanLeftovers(folder, fs);
  let { found, passedOver, moved } = await search(folder, fs);
  // A run that is still writing may replace a checkpoint while it is being read; damage that is seen twice is real.
  for (let attempt = 0; attempt < 5 && (moved || passedOver.length > 0); attempt++) {
    const before = passedOver.map(({ message }) => message).join();
    await sleep(20);
    ({ found, passedOver, moved } = await search(folder, fs));
    if (!moved && passedOver.map(({ message }) => message).join() === before) break;
  }
  if (found !== undefined) {
    const next = `going on from checkpoint "${basename(found.folder)}"`;
    for (const { code, message } of passedOver) warn(code, `${message}; ${next}`);
    return found;
  }
  if (passedOver.length === 0) return undefined;
  throw new AlambicError(
    'CHECKPOINT_DAMAGED',
    `none of the ${passedOver.length} checkpoints is good: ${passedOver.map(({ message }) => message).join('; ')}`,
    { at: folder, hint: 'Restore the folder from a copy, or start a new run.', cause: passedOver[0] },
  );
}

async function search(folder: string, fs: FileSystem) {
  const passedOver: AlambicError[] = [];
  let moved = false;
  let found: Checkpoint | undefined;
  for (const candidate of await candidates(folder, fs)) {
    const read =
      candidate instanceof AlambicError ? candidate : await attempt(() => readCheckpoint(candidate.folder, { fs }));
    if (!(read instanceof AlambicError)) {
      found = read;
      break;
    }
    if (read.code === 'CHECKPOINT_VERSION') throw read;
    if (read.code === 'CHECKPOINT_MISSING') moved = true;
    else passedOver.push(read);
  }
  return { found, passedOver, moved };
}

/**
 * The checkpoints of a run whose manifests are good, the latest first; file contents are not checked.
 *
 * @param runFolder Run folder, or its folder `checkpoints`.
 */
export async function listCheckpoints(
  runFolder: string,
  { fs = nodeFs }: Pick<SearchOptions, 'fs'> = {},
): Promise<CheckpointSummary[]> {
  const folder = await checkpointsFolder(fs, runFolder);
  if (folder === undefined) return [];
  const found = await candidates(folder, fs);
  return found.filter((candidate): candidate is CheckpointSummary => !(candidate instanceof AlambicError));
}

/** Deletes a checkpoint. It is renamed first, so that a kill halfway leaves a leftover, not a damaged checkpoint. */
export async function removeCheckpoint(folder: string, fs: FileSystem = nodeFs): Promise<void> {
  const gone = `${folder}.gone-${identityToText(thisProcess())}`;
  await fs.rm(gone, { recursive: true, force: true });
  await fs.rename(folder, gone);
  await fs.rm(gone, { recursive: true, force: true });
}

/**
 * Removes what killed processes left in a folder of checkpoints: half-written ones, half-deleted ones. One that was being replaced is put
 * back where its successor did not arrive.
 *
 * @returns Names of what was removed or put back.
 */
export async function cleanLeftovers(folder: string, fs: FileSystem = nodeFs): Promise<string[]> {
  const cleaned: string[] = [];
  for (const entry of await fs.readdir(folder)) {
    const leftover = parseLeftover(entry);
    if (leftover === undefined || !(await isDead(fs, join(folder, entry), leftover.owner))) continue;
    const path = join(folder, entry);
    const target = join(folder, leftover.name);
    try {
      const putBack = leftover.kind === 'old' && (await statOrUndefined(fs, target)) === undefined;
      if (putBack && !((await attempt(() => readCheckpointSummary(path, { fs }))) instanceof AlambicError)) {
        await fs.rename(path, target);
        await syncFolder(fs, folder);
      } else await fs.rm(path, { recursive: true, force: true });
      cleaned.push(entry);
    } catch (error) {
      // A folder that may only be read (an evaluation of somebody else's run) keeps its leftovers; another process may clean at the same time.
      if (!['EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ENOTEMPTY'].includes(errnoOf(error) ?? '')) throw error;
    }
  }
  return cleaned;
}

function parseLeftover(entry: string) {
  const match = /^(.+)\.(tmp|old|gone)-([^.]+)$/.exec(entry);
  const owner = match === null ? undefined : identityFromText(match[3]!);
  return match === null || owner === undefined ? undefined : { name: match[1]!, kind: match[2]!, owner };
}

async function isDead(fs: FileSystem, path: string, owner: Parameters<typeof isAlive>[0]): Promise<boolean> {
  const alive = isAlive(owner);
  if (alive !== undefined) return !alive;
  const stat = await statOrUndefined(fs, path);
  return stat !== undefined && Date.now() - stat.mtimeMs > FOREIGN_LEFTOVER_MS;
}

async function checkpointsFolder(fs: FileSystem, runFolder: string): Promise<string | undefined> {
  const inside = join(runFolder, 'checkpoints');
  if ((await statOrUndefined(fs, inside))?.isDirectory()) return inside;
  return basename(runFolder) === 'checkpoints' && (await statOrUndefined(fs, runFolder))?.isDirectory()
    ? runFolder
    : undefined;
}

/** Every checkpoint's summary, the latest first; before them the errors of those whose manifest is damaged, since they have no number. */
async function candidates(folder: string, fs: FileSystem): Promise<(CheckpointSummary | AlambicError)[]> {
  const summaries: CheckpointSummary[] = [];
  const errors: AlambicError[] = [];
  for (const entry of await fs.readdir(folder, { withFileTypes: true })) {
    if (!entry.isDirectory()) continue;
    // The one a living process is replacing right now (`old`) is as good as any.
    const leftover = parseLeftover(entry.name);
    if (leftover !== undefined && leftover.kind !== 'old') continue;
    const found = await attempt(() => readCheckpointSummary(join(folder, entry.name), { fs }));
    if (!(found instanceof AlambicError)) summaries.push(found);
    else if (leftover === undefined) errors.push(found);
  }
  return [...errors, ...summaries.sort((a, b) => b.sequence - a.sequence)];
}

async function attempt<T>(run: () => Promise<T>): Promise<T | AlambicError> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof AlambicError) return error;
    throw error;
  }
}
