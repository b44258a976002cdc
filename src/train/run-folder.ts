import nodeFs from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { AlambicError } from '../errors.ts';
import { errnoOf, explainWriteError, type FileSystem } from './file-errors.ts';
import { statOrUndefined } from './folder-replacement.ts';
import { acquireRunLock, type RunLock } from './run-lock.ts';

/** Where the parts of a run lie. */
export interface RunPaths {
  readonly folder: string;
  /** The resolved recipe: what was really run. */
  readonly recipe: string;
  /** One JSON event a line. */
  readonly log: string;
  readonly checkpoints: string;
  /** Finished models, one folder each. */
  readonly models: string;
  readonly report: string;
  readonly lock: string;
}

/** An opened run folder, locked for this process until `close`. */
export interface RunFolder extends RunPaths {
  /** Whether the folder held a run that goes on. */
  readonly resumed: boolean;
  /** Whether a resumed run's recipe differs from the one it was started with; the old one is kept beside it. */
  readonly recipeChanged: boolean;
  close(): Promise<void>;
}

export interface OpenRunFolderOptions {
  /** Name of the recipe, `digits/kd`: becomes part of the folder's name. */
  readonly recipe: string;
  /** Text of the resolved recipe (YAML), saved as `recipe.yaml`. */
  readonly resolvedRecipe: string;
  /** Given folder; default `<root>/<recipe>-<timestamp>`. */
  readonly folder?: string;
  /** @default 'runs' */
  readonly root?: string;
  /** Go on with the run that the folder holds. @default false */
  readonly resume?: boolean;
  /** @default node:fs/promises */
  readonly fs?: FileSystem;
  /** @default now */
  readonly now?: () => Date;
}

const IDENTITY = 'run.json';

/** File names within a run folder. */
export function runPaths(folder: string): RunPaths {
  return {
    folder,
    recipe: join(folder, 'recipe.yaml'),
    log: join(folder, 'run.jsonl'),
    checkpoints: join(folder, 'checkpoints'),
    models: join(folder, 'models'),
    report: join(folder, 'report.html'),
    lock: join(folder, 'run.lock'),
  };
}

/**
 * Opens a run folder: makes a new one, or goes on in one that holds a run of the same recipe; locks it.
 *
 * @throws AlambicError RUN_FOLDER_HOLDS_RUN (without `resume`), RUN_FOLDER_OTHER_RECIPE, RUN_FOLDER_NOT_EMPTY, RUN_FOLDER_MISSING (nothing to
 * resume), RUN_LOCKED, RUN_FOLDER_READ_ONLY, RUN_FOLDER_IS_FILE, CHECKPOINT_NO_SPACE.
 * @example
 * const run = await openRunFolder({ recipe: 'digits/kd', resolvedRecipe: text });
 * try { … } finally { await run.close(); }
 */
export async function openRunFolder(options: OpenRunFolderOptions): Promise<RunFolder> {
  const { recipe, resolvedRecipe, root = 'runs', resume = false, fs = nodeFs, now = () => new Date() } = options;
  const wanted = resolve(options.folder ?? join(root, `${fileName(recipe)}-${timestamp(now())}`));
  let lock: RunLock | undefined;
  try {
    const held = await heldRun(fs, wanted);
    if (options.folder !== undefined || resume) checkFits(wanted, held, recipe, resume);
    // A name of our own making may be taken by a run that began in the same second; a given folder is taken as it is.
    const folder = options.folder === undefined && !resume ? await makeNew(fs, wanted) : wanted;
    await fs.mkdir(folder, { recursive: true });
    const paths = runPaths(folder);
    lock = await acquireRunLock(paths.lock, { fs });
    // Again under the lock: another process may have begun here in between.
    const stillHeld = await heldRun(fs, folder);
    checkFits(folder, stillHeld, recipe, resume);
    await fs.mkdir(paths.checkpoints, { recursive: true });
    const recipeChanged = stillHeld !== undefined && (await replaceRecipe(fs, paths, resolvedRecipe, now()));
    if (stillHeld === undefined) {
      await fs.writeFile(paths.recipe, resolvedRecipe);
      const identity = { format: 'alambic-run', version: 1, recipe, createdAt: now().toISOString() };
      // Last: a folder with this file is a run.
      await fs.writeFile(join(folder, IDENTITY), `${JSON.stringify(identity, null, 1)}\n`);
    }
    return { ...paths, resumed: stillHeld !== undefined, recipeChanged, close: lock.release };
  } catch (error) {
    await lock?.release();
    throw await explainWriteError(fs, error, `run folder "${basename(wanted)}"`, wanted);
  }
}

type HeldRun = { readonly recipe: string } | 'other files' | undefined;

async function heldRun(fs: FileSystem, folder: string): Promise<HeldRun> {
  const stat = await statOrUndefined(fs, folder);
  if (stat === undefined) return undefined;
  if (!stat.isDirectory()) throw Object.assign(new Error(), { code: 'EEXIST' });
  try {
    const { recipe } = JSON.parse(await fs.readFile(join(folder, IDENTITY), 'utf8')) as { recipe: string };
    return { recipe };
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' && !(error instanceof SyntaxError)) throw error;
  }
  // What a run that was killed while it opened the folder may have left, and what file managers put everywhere.
  const own = new Set(['run.lock', 'recipe.yaml', 'checkpoints', '.DS_Store', IDENTITY]);
  const names = (await fs.readdir(folder)).filter((name) => !own.has(name) && !name.startsWith('run.lock.'));
  return names.length === 0 ? undefined : 'other files';
}

function checkFits(folder: string, held: HeldRun, recipe: string, resume: boolean): void {
  if (held === 'other files')
    throw new AlambicError('RUN_FOLDER_NOT_EMPTY', 'expected an empty folder or a run, the folder holds other files', {
      at: folder,
      hint: 'Name a folder that does not exist yet; it is made.',
    });
  if (held === undefined) {
    if (!resume) return;
    throw new AlambicError('RUN_FOLDER_MISSING', 'there is no run to resume here', {
      at: folder,
      hint: 'Name the folder of the interrupted run, or start it without --resume.',
    });
  }
  if (held.recipe !== recipe)
    throw new AlambicError(
      'RUN_FOLDER_OTHER_RECIPE',
      `the folder holds a run of "${held.recipe}", this one is "${recipe}"`,
      {
        at: folder,
        hint: 'Give this run a folder of its own.',
      },
    );
  if (!resume)
    throw new AlambicError('RUN_FOLDER_HOLDS_RUN', `the folder already holds a run of "${recipe}"`, {
      at: folder,
      hint: 'Go on with it by --resume, or give the new run a folder of its own.',
    });
}

/** Makes a folder that was not there, with `-2`, `-3`, … where the name is taken. */
async function makeNew(fs: FileSystem, wanted: string): Promise<string> {
  await fs.mkdir(join(wanted, '..'), { recursive: true });
  for (let number = 1; ; number++) {
    const folder = number === 1 ? wanted : `${wanted}-${number}`;
    try {
      await fs.mkdir(folder);
      return folder;
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST' || number === 1000) throw error;
    }
  }
}

/** Keeps the recipe that a resumed run had so far, where the new one differs. */
async function replaceRecipe(fs: FileSystem, paths: RunPaths, text: string, now: Date): Promise<boolean> {
  let before: string | undefined;
  try {
    before = await fs.readFile(paths.recipe, 'utf8');
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
  if (before === text) return false;
  if (before !== undefined) await fs.rename(paths.recipe, join(paths.folder, `recipe.until-${timestamp(now)}.yaml`));
  await fs.writeFile(paths.recipe, text);
  return before !== undefined;
}

/** `digits/kd.yaml` -> `digits-kd`: one path component on every system. */
function fileName(recipe: string): string {
  const name = recipe
    .replace(/\.ya?ml$/, '')
    .replace(/[^\p{L}\p{N}._-]+/gu, '-')
    .replace(/^[-.]+|[-.]+$/g, '');
  return name === '' ? 'run' : name;
}

/** UTC, sorts by name: `20261201-015844`. */
function timestamp(date: Date): string {
  const [day, time] = date.toISOString().slice(0, 19).split('T');
  return `${day!.replaceAll('-', '')}-${time!.replaceAll(':', '')}`;
}
