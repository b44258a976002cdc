import nodeFs from 'node:fs/promises';
import { basename, join } from 'node:path';
import { AlambicError, unknownName } from '../errors.ts';
import {
  type CheckpointContent,
  type CheckpointSummary,
  readCheckpointSummary,
  writeCheckpoint,
} from './checkpoint.ts';
import type { FileSystem } from './file-errors.ts';
import { removeFolder } from './folder-replacement.ts';
import { parseLeftover } from './leftovers.ts';

/**
 * Which checkpoints stay. One that any rule keeps stays; the newest always does. Old ones are deleted after the new one is on the disk,
 * so that for a moment there is one more than the rules say.
 */
export interface KeepRules {
  /** The newest n of the run. @default 1 */
  readonly last?: number;
  /** The best k of each stage by `monitor`. @default 0 */
  readonly best?: number;
  /** Metric that says what is best: `dev/top1`. Needed where `best` is above 0. */
  readonly monitor?: string;
  /** Whether larger or smaller is better. @default by the metric's name, see `monitorMode` */
  readonly mode?: 'max' | 'min';
}

/** What the rules know of one checkpoint. */
export interface KeptCheckpoint {
  /** Name of the folder. */
  readonly name: string;
  readonly stage: string;
  /** Of the evaluation at this point; absent for checkpoints in between (an interval, a signal), which are never the best. */
  readonly metrics?: Readonly<Record<string, number>>;
  /** Kept whatever the rules say, for instance the end of a stage. */
  readonly pinned?: boolean;
}

/** Plain data, saved in each checkpoint. */
export interface KeeperState {
  readonly monitor?: string;
  readonly mode: 'max' | 'min';
  /** Oldest first. */
  readonly kept: readonly KeptCheckpoint[];
}

/** `min` for losses and errors (`…loss`, `…error`, `ce`, `nll`, `ece`, `kl`, `mse`), else `max`. */
export function monitorMode(monitor: string): 'max' | 'min' {
  return /(^|[/_-])(.*loss|.*error|.*ece|ce|nll|kl|mse|mae)$/i.test(monitor) ? 'min' : 'max';
}

/** A stage's checkpoints that have a finite value of the monitored metric, the best first; of equal ones the first to reach it. */
export function rankCheckpoints({ monitor, mode, kept }: KeeperState, stage: string): KeptCheckpoint[] {
  if (monitor === undefined) return [];
  const sign = mode === 'max' ? -1 : 1;
  const monitored = ({ metrics }: KeptCheckpoint) => metrics?.[monitor] ?? Number.NaN;
  return kept
    .filter((checkpoint) => checkpoint.stage === stage && Number.isFinite(monitored(checkpoint)))
    .sort((a, b) => sign * (monitored(a) - monitored(b)));
}

/**
 * Saves the checkpoints of a run and deletes those that no rule keeps, after the new one is safely on the disk.
 *
 * @example
 * const keeper = new CheckpointKeeper(run.checkpoints, { last: 2, best: 1, monitor: 'dev/top1' }, { state: resumed?.keeper });
 * await keeper.save('student-e3', content, { stage: 'student', metrics: { 'dev/top1': 0.93 } });
 */
export class CheckpointKeeper {
  readonly #folder: string;
  readonly #last: number;
  readonly #best: number;
  readonly #monitor: string | undefined;
  readonly #mode: 'max' | 'min';
  readonly #fs: FileSystem;
  readonly #warn: (code: string, message: string) => void;
  #kept: readonly KeptCheckpoint[];

  /**
   * @param folder The run's folder of checkpoints.
   * @throws AlambicError CHECKPOINT_KEEP_RULE for numbers below their least, or `best` without `monitor`.
   */
  constructor(
    folder: string,
    { last = 1, best = 0, monitor, mode }: KeepRules,
    options: {
      readonly state?: KeeperState | undefined;
      readonly warn?: (code: string, message: string) => void;
      readonly fs?: FileSystem;
    } = {},
  ) {
    const hint = 'For instance `keep: { last: 1, best: 1, monitor: dev/top1 }`.';
    if (!Number.isInteger(last) || last < 1)
      throw new AlambicError('CHECKPOINT_KEEP_RULE', `keep.last: expected an integer of at least 1, got ${last}`, {
        hint,
      });
    if (!Number.isInteger(best) || best < 0)
      throw new AlambicError('CHECKPOINT_KEEP_RULE', `keep.best: expected an integer of at least 0, got ${best}`, {
        hint,
      });
    if (best > 0 && monitor === undefined)
      throw new AlambicError('CHECKPOINT_KEEP_RULE', `keep.best is ${best}, but keep.monitor names no metric`, {
        hint,
      });
    this.#folder = folder;
    this.#last = last;
    this.#best = best;
    this.#monitor = monitor;
    this.#mode = mode ?? monitorMode(monitor ?? '');
    this.#fs = options.fs ?? nodeFs;
    this.#warn = options.warn ?? (() => undefined);
    this.#kept = options.state?.kept ?? [];
  }

  get state(): KeeperState {
    return this.#stateWith(this.#kept);
  }

  /** Folder of a stage's best checkpoint so far; `undefined` before the first one with a finite value. */
  best(stage: string): string | undefined {
    const [first] = rankCheckpoints(this.state, stage);
    return first === undefined ? undefined : join(this.#folder, first.name);
  }

  /**
   * Writes a checkpoint, then removes those that no rule keeps any more.
   *
   * @param about.metrics Of the evaluation at this point; absent for checkpoints in between.
   * @throws AlambicError UNKNOWN_METRIC where metrics are given and the monitored one is not among them; the errors of `writeCheckpoint`.
   */
  async save(
    name: string,
    content: CheckpointContent,
    about: { readonly stage: string; readonly metrics?: Readonly<Record<string, number>>; readonly pinned?: boolean },
  ): Promise<CheckpointSummary> {
    const { stage, metrics, pinned = false } = about;
    checkName(name);
    const entry = { name, stage, ...(metrics === undefined ? {} : { metrics }), ...(pinned ? { pinned } : {}) };
    const before = this.#kept;
    this.#kept = [...before.filter((kept) => kept.name !== name), entry];
    let summary: CheckpointSummary;
    try {
      summary = await writeCheckpoint(join(this.#folder, name), { ...content, keeper: this.state }, { fs: this.#fs });
    } catch (error) {
      this.#kept = before;
      throw error;
    }
    await this.#prune();
    // After the save: a wrong name must not cost the epoch that was just trained.
    const monitor = this.#monitor;
    if (monitor !== undefined && metrics !== undefined && !Object.hasOwn(metrics, monitor))
      throw unknownName('UNKNOWN_METRIC', 'metric in run.keep.monitor', monitor, Object.keys(metrics));
    return summary;
  }

  #stateWith(kept: readonly KeptCheckpoint[]): KeeperState {
    return { ...(this.#monitor === undefined ? {} : { monitor: this.#monitor }), mode: this.#mode, kept };
  }

  async #prune(): Promise<void> {
    // A rule must not be spent on a checkpoint that is gone or damaged, so only good ones compete.
    const good: KeptCheckpoint[] = [];
    for (const kept of this.#kept) if (await this.#isGood(kept.name)) good.push(kept);
    const stages = new Set(good.map(({ stage }) => stage));
    const keep = new Set([
      ...good.filter(({ pinned }) => pinned === true),
      ...good.slice(-this.#last),
      ...[...stages].flatMap((stage) => rankCheckpoints(this.#stateWith(good), stage).slice(0, this.#best)),
    ]);
    if (keep.size === 0) return;
    for (const kept of good) {
      if (keep.has(kept)) continue;
      try {
        await removeFolder(this.#fs, join(this.#folder, kept.name));
      } catch (error) {
        // Not being able to delete costs space, not the run; it stays in the list and is tried again.
        keep.add(kept);
        this.#warn('CHECKPOINT_NOT_REMOVED', `${kept.name} could not be removed: ${(error as Error).message}`);
      }
    }
    this.#kept = good.filter((kept) => keep.has(kept));
  }

  async #isGood(name: string): Promise<boolean> {
    try {
      await readCheckpointSummary(join(this.#folder, name), { fs: this.#fs });
      return true;
    } catch (error) {
      if (!(error instanceof AlambicError)) throw error;
      if (error.code !== 'CHECKPOINT_MISSING') this.#warn(error.code, `${basename(name)}: ${error.message}`);
      return false;
    }
  }
}

function checkName(name: string): void {
  if (/^[^./\\][^/\\]*$/.test(name) && parseLeftover(name) === undefined) return;
  throw new AlambicError('CHECKPOINT_CONTENT', `expected a plain folder name for a checkpoint, got "${name}"`, {
    hint: 'For instance `student-e3`: no slashes, no dot in front.',
  });
}
