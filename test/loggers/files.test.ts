import { spawn } from 'node:child_process';
import { appendFileSync, mkdtempSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CsvLogger } from '../../src/loggers/csv.ts';
import { JsonlLogger } from '../../src/loggers/jsonl.ts';
import { logLine, readLog } from '../../src/loggers/log-lines.ts';
import { evaluation, runStart, stageStart, step } from './events.ts';

const folder = () => mkdtempSync(join(tmpdir(), 'alambic-log-'));

describe('JsonlLogger', () => {
  test('what is written comes back, numbers that are not finite too', async () => {
    const place = folder();
    const logger = new JsonlLogger({ file: 'run.jsonl' });
    const events = [
      runStart(false, place),
      stageStart(),
      step(1, { total: Number.NaN, ce: Number.POSITIVE_INFINITY, kd: -1 }),
      evaluation(0, 0.5),
    ];
    for (const event of events) logger.on(event);
    logger.close();
    const read = await readLog(join(place, 'run.jsonl'));
    expect(read.map(({ time, ...event }) => event)).toEqual(events);
    expect(read.every(({ time }) => Math.abs(Date.now() - Date.parse(time)) < 60_000)).toBe(true);
  });

  test('each event is in the file as soon as it happened', async () => {
    const place = folder();
    const logger = new JsonlLogger({ file: 'run.jsonl' });
    logger.on(runStart(false, place));
    logger.on(step(1));
    expect(await readLog(join(place, 'run.jsonl'))).toHaveLength(2);
    logger.close();
  });

  test('a resumed run goes on behind the last whole line', async () => {
    const place = folder();
    const path = join(place, 'run.jsonl');
    const first = new JsonlLogger({ file: 'run.jsonl' });
    for (const event of [runStart(false, place), stageStart(), step(1), step(2)]) first.on(event);
    first.close();
    truncateSync(path, readFileSync(path).length - 20);
    expect(await readLog(path)).toHaveLength(3);
    const second = new JsonlLogger({ file: 'run.jsonl' });
    second.on(runStart(true, place));
    second.on(step(2));
    second.close();
    const events = await readLog(path);
    expect(events.map(({ type }) => type)).toEqual(['run-start', 'stage-start', 'step', 'run-start', 'step']);
    expect(events[3]).toMatchObject({ resumed: true });
  });

  test('a first line of more than a block that was cut is cut off as a whole', async () => {
    const place = folder();
    const path = join(place, 'run.jsonl');
    writeFileSync(path, `{"type":"${'x'.repeat(200_000)}`);
    const logger = new JsonlLogger({ file: 'run.jsonl' });
    logger.on(runStart(true, place));
    logger.close();
    expect(await readLog(path)).toHaveLength(1);
  });

  test('a process that is killed loses no event that happened before', async () => {
    const place = folder();
    const url = (path: string) => JSON.stringify(new URL(path, import.meta.url).href);
    const script = `
      import { register } from 'tsx/esm/api';
      register();
      const { JsonlLogger } = await import(${url('../../src/loggers/jsonl.ts')});
      const logger = new JsonlLogger({ file: 'run.jsonl' });
      logger.on({ type: 'run-start', folder: ${JSON.stringify(place)}, stages: [], resumed: false });
      for (let update = 1; ; update++) {
        logger.on({ type: 'step', update });
        process.stdout.write(update + '\\n');
        await new Promise((done) => setTimeout(done, 1));
      }`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      cwd: new URL('../..', import.meta.url),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let seen = '';
    child.stdout.on('data', (data: Buffer) => {
      seen += String(data);
      if (seen.split('\n').length > 50) child.kill('SIGKILL');
    });
    await new Promise((done) => child.on('close', done));
    const reported = Number(seen.trim().split('\n').at(-1));
    const events = await readLog(join(place, 'run.jsonl'));
    expect(reported).toBeGreaterThanOrEqual(50);
    expect((events.at(-1) as { update?: number }).update).toBeGreaterThanOrEqual(reported);
  });
});

describe('readLog', () => {
  test('leaves a cut last line out, names a damaged one before it', async () => {
    const path = join(folder(), 'run.jsonl');
    const line = logLine(step(1), new Date(0));
    writeFileSync(path, line + line.slice(0, 30));
    expect(await readLog(path)).toHaveLength(1);
    appendFileSync(path, `\n${line}`);
    await expect(readLog(path)).rejects.toMatchObject({ code: 'LOG_DAMAGED', at: `${path}:2` });
    await expect(readLog(`${path}.none`)).rejects.toMatchObject({ code: 'LOG_MISSING' });
  });
});

describe('CsvLogger', () => {
  test('writes one value a row, quoted where it must be, one header over a resume', () => {
    const place = folder();
    for (const resumed of [false, true]) {
      const logger = new CsvLogger({ file: 'metrics.csv', steps: true });
      logger.on(runStart(resumed, place));
      logger.on(stageStart());
      logger.on(step(25, { total: 1.5 }));
      logger.on({ type: 'epoch-end', stage: 'a "b", c', epoch: 0, metrics: { 'dev/top1': 0.5 }, seconds: 2 });
    }
    expect(readFileSync(join(place, 'metrics.csv'), 'utf8').split('\n').slice(0, 6)).toEqual([
      'stage,epoch,update,name,value',
      'teacher,0,25,step/total,1.5',
      'teacher,0,25,step/rate,0.05',
      '"a ""b"", c",0,25,dev/top1,0.5',
      '"a ""b"", c",0,25,seconds,2',
      'teacher,0,25,step/total,1.5',
    ]);
  });
});
