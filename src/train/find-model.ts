import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { AlambicError } from '../errors.ts';
import { readRunSummary } from './run.ts';
import type { RunSummary } from './run-result.ts';

/** Where trained models lie. */
export interface ModelPlace {
  /** The model that is meant: the one named, or a run's last student, else its last stage's. */
  readonly folder: string;
  /** The run it belongs to, if any. */
  readonly run?: { readonly folder: string; readonly summary: RunSummary };
  /** Folders of all models meant, by stage: the one, or all of a run. */
  readonly all: Readonly<Record<string, string>>;
}

/**
 * Finds what a path stands for: a model folder, or a run folder.
 *
 * @throws AlambicError MODEL_MISSING, RUN_RESULT.
 * @example
 * const { folder } = await findModel('runs/first'); // runs/first/models/student
 */
export async function findModel(path: string): Promise<ModelPlace> {
  const folder = resolve(path);
  if (existsSync(join(folder, 'config.json'))) {
    const runFolder = resolve(folder, '../..');
    const summary = existsSync(join(runFolder, 'result.json')) ? await readRunSummary(runFolder) : undefined;
    const stage = summary?.stages.find(({ modelFolder }) => resolve(runFolder, modelFolder) === folder)?.stage;
    if (summary === undefined || stage === undefined) return { folder, all: { [path]: folder } };
    return { folder, run: { folder: runFolder, summary }, all: { [stage]: folder } };
  }
  if (existsSync(join(folder, 'result.json')) || existsSync(join(folder, 'run.json'))) {
    const summary = await readRunSummary(folder);
    const { stages } = summary;
    const all = Object.fromEntries(stages.map(({ stage, modelFolder }) => [stage, resolve(folder, modelFolder)]));
    const meant = stages.findLast(({ teachers }) => teachers.length > 0) ?? stages.at(-1);
    if (meant !== undefined) return { folder: all[meant.stage]!, run: { folder, summary }, all };
  }
  throw new AlambicError(
    'MODEL_MISSING',
    'expected the folder of a model (with config.json) or of a run that finished a stage',
    { at: path, hint: 'The models of a run lie in its folder `models`: `runs/…/models/student`.' },
  );
}
