import nodeFs from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AlambicError } from '../errors.ts';
import { type Checkpoint, type CheckpointSummary, readCheckpoint, readCheckpointSummary } from './checkpoint.ts';
import { type KeeperState, rankCheckpoints } from './checkpoint-keeper.ts';
import type { FileSystem } from './file-errors.ts';
import { statOrUndefined } from './folder-replacement.ts';
import { cleanLeftovers, parseLeftover } from './leftovers.ts';

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

/**
 * The best checkpoint of a stage by the run's keep rules, every hash checked; `undefined` where no checkpoint was ranked.
 *
 * @param stage Default: the stage of the latest checkpoint.
 * @throws AlambicError CHECKPOINT_DAMAGED where it is damaged: another one would not be the best.
 */
export async function findBestCheckpoint(
  runFolder: string,
  stage?: string,
  { fs = nodeFs }: Pick<SearchOptions, 'fs'> = {},
): Promise<Checkpoint | undefined> {
  const [latest] = await listCheckpoints(runFolder, { fs });
  const state: KeeperState | undefined = latest?.keeper;
  const wanted = stage ?? state?.kept.at(-1)?.stage;
  if (latest === undefined || state === undefined || wanted === undefined) return undefined;
  const [best] = rankCheckpoints(state, wanted);
  return best === undefined ? undefined : readCheckpoint(join(dirname(latest.folder), best.name), { fs });
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
