import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { instantiatePlugin } from 'alambic/plugin';
import { describe, expect, it, onTestFinished } from 'vitest';
import plugin from './logger.ts';

describe('my-logger', () => {
  it('writes a line for each epoch into the run folder', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'my-logger-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const logger = instantiatePlugin(plugin);
    await logger.on({ type: 'run-start', folder, stages: ['student'], resumed: false });
    for (const epoch of [0, 1]) {
      await logger.on({
        type: 'epoch-end',
        stage: 'student',
        epoch,
        metrics: { 'dev/top1': 0.5 + epoch / 4 },
        seconds: 1,
      });
    }
    expect(await readFile(join(folder, 'epochs.txt'), 'utf8')).toBe(
      'student 0 dev/top1=0.5000\nstudent 1 dev/top1=0.7500\n',
    );
  });
});
