import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findLatestCheckpoint } from '../../src/train/checkpoint-search.ts';
import { readRunSummary, runRecipe } from '../../src/train/run.ts';
import { openTestEngine } from '../engine-setup.ts';
import { loadText } from './run-setup.ts';

/** Times that the run is killed; many more with ALAMBIC_KILLS=50. */
const KILLS = Number(process.env['ALAMBIC_KILLS'] ?? 8);
const CHILD = fileURLToPath(new URL('run-child.ts', import.meta.url));

let root: string;
beforeAll(async () => {
  await openTestEngine();
  root = await mkdtemp(join(tmpdir(), 'alambic-kill-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

/** Starts or goes on with the run, and kills it `delay` ms after so many checkpoints; gives whether it ended by itself before. */
function runFor(folder: string, checkpoints: number, delay: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const started = existsSync(join(folder, 'run.json'));
    const child = spawn(process.execPath, ['--import', 'tsx', CHILD, folder, started ? 'resume' : 'new'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let errors = '';
    let timer: NodeJS.Timeout | undefined;
    child.stderr.on('data', (text) => {
      errors += text;
    });
    let left = checkpoints;
    child.stdout.on('data', (text) => {
      left -= String(text).split('checkpoint').length - 1;
      if (left <= 0) timer ??= setTimeout(() => child.kill('SIGKILL'), delay);
    });
    child.on('error', reject);
    child.on('exit', (code, signal) => {
      clearTimeout(timer);
      if (signal === 'SIGKILL') resolve(false);
      else if (code === 0) resolve(true);
      else reject(new Error(`the child ended with ${code ?? signal}: ${errors}`));
    });
  });
}

/** All that a run leaves that must not depend on how often it was stopped. */
async function outcome(folder: string) {
  const { stages, finished } = await readRunSummary(folder);
  const bytes = async (...path: string[]) => (await readFile(join(folder, ...path))).toString('base64');
  const checkpoint = (await findLatestCheckpoint(folder))!;
  return {
    finished,
    stages: stages.map(({ stage, metrics, history, updates, epochs, outcomes, confusion }) => ({
      stage,
      metrics,
      history,
      updates,
      epochs,
      outcomes,
      confusion,
    })),
    teacher: await bytes('models', 'teach', 'model.safetensors'),
    student: await bytes('models', 'distil', 'model.safetensors'),
    state: (await readFile(join(checkpoint.folder, 'state.safetensors'))).toString('base64'),
    checkpoints: (await readdir(join(folder, 'checkpoints'))).filter((name) => !name.startsWith('.')).sort(),
  };
}

test(`killed ${KILLS} times, a run ends in the same bits as one that was left alone`, async () => {
  const straight = join(root, 'straight');
  await runRecipe(await loadText(), { folder: straight });
  const folder = join(root, 'killed');
  let killed = 0;
  let state = 12345;
  const random = () => {
    state = (state * 1103515245 + 12345) % 2 ** 31;
    return state / 2 ** 31;
  };
  for (let i = 0; i < KILLS; i++) {
    // The run writes some 40 checkpoints; it dies within a step, a save, an evaluation, or before it has begun.
    const checkpoints = Math.floor(random() * (60 / KILLS));
    if (await runFor(folder, checkpoints, random() * (checkpoints === 0 ? 400 : 40))) break;
    killed++;
  }
  expect(killed).toBeGreaterThanOrEqual(KILLS / 2);
  await runFor(folder, Number.POSITIVE_INFINITY, 0);
  expect(await outcome(folder)).toEqual(await outcome(straight));
}, 600_000);
