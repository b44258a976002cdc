import nodeFs from 'node:fs/promises';
import { join } from 'node:path';
import { AlambicError } from '../errors.ts';
import { writeText } from '../formats/file-bytes.ts';
import { errnoOf, explainWriteError } from './file-errors.ts';
import type { RunSummary, StageSummary } from './run-result.ts';

const RESULT_FILE = 'result.json';

/** Writes the result of a run folder aside and renames it, so that there is always a whole one. */
export async function writeRunSummary(folder: string, summary: RunSummary): Promise<void> {
  const path = join(folder, RESULT_FILE);
  try {
    await writeText(`${path}.tmp`, `${JSON.stringify(summary)}\n`, nodeFs);
    await nodeFs.rename(`${path}.tmp`, path);
  } catch (error) {
    throw await explainWriteError(nodeFs, error, 'result.json', path);
  }
}

/** The stages that a run has finished so far. Throws RUN_RESULT where the file is damaged. */
export async function readStages(folder: string): Promise<StageSummary[]> {
  const path = join(folder, RESULT_FILE);
  try {
    return [...(JSON.parse(await nodeFs.readFile(path, 'utf8')) as RunSummary).stages];
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw new AlambicError('RUN_RESULT', `${path} cannot be read`, {
      hint: 'Delete it: finished stages are then run again.',
      cause: error,
    });
  }
}

/** Result of a run folder; throws RUN_RESULT where it has none. */
export async function readRunSummary(folder: string): Promise<RunSummary> {
  const path = join(folder, RESULT_FILE);
  try {
    return JSON.parse(await nodeFs.readFile(path, 'utf8')) as RunSummary;
  } catch (error) {
    throw new AlambicError('RUN_RESULT', `expected a result at ${path}`, {
      hint: 'Name the folder of a run that has finished a stage.',
      cause: error,
    });
  }
}
