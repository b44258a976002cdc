import { PassThrough } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from 'vitest';
import { createColors } from '../../src/loggers/colors.ts';
import { groupTable } from '../../src/loggers/group-table.ts';
import { LiveLogger } from '../../src/loggers/live.ts';
import { renderBlock, sparkline } from '../../src/loggers/live-block.ts';
import { PlainLogger } from '../../src/loggers/plain.ts';
import { Progress } from '../../src/loggers/progress.ts';
import { clip, textTable, visibleWidth } from '../../src/loggers/text-table.ts';
import type { RunEvent } from '../../src/plugin-host/contract.ts';
import { evaluation, GROUPS, runStart, stageStart, step } from './events.ts';

const plain = createColors(false);

/** A progress that took events, each a second after the one before. */
function progressAfter(events: readonly RunEvent[]): { progress: Progress; now: number } {
  const progress = new Progress();
  let now = 0;
  for (const event of events) {
    progress.take(event, now);
    now += 1000;
  }
  return { progress, now };
}

describe('Progress', () => {
  test('smooths losses, keeps the rest as it came', () => {
    const { progress } = progressAfter([runStart(), stageStart(), step(10, { total: 1 }), step(20, { total: 2 })]);
    expect(progress.stage!.losses['total']).toBeCloseTo(1.2, 12);
    expect(progress.stage!.update).toBe(20);
  });

  test('a loss that was not finite does not stay so', () => {
    const { progress } = progressAfter([
      runStart(),
      stageStart(),
      step(1, { total: Number.NaN }),
      step(2, { total: 2 }),
    ]);
    expect(progress.stage!.losses['total']).toBe(2);
  });

  test('estimates the time left from the updates since the first, also after a resume', () => {
    const progress = new Progress();
    progress.take(runStart(true), 0);
    progress.take(stageStart(), 0);
    progress.take(step(60), 100_000);
    expect(progress.secondsLeftOfStage(100_000)).toBeUndefined();
    progress.take(step(80), 110_000);
    // 20 updates in 10 s, 20 to go.
    expect(progress.secondsLeftOfStage(110_000)).toBeCloseTo(10, 6);
  });

  test('estimates the run by the work of its stages, else by equal shares', () => {
    const estimate = (work?: number[]) => {
      const progress = new Progress();
      progress.take(
        { ...(runStart() as Extract<RunEvent, { type: 'run-start' }>), ...(work === undefined ? {} : { work }) },
        0,
      );
      progress.take(stageStart(), 0);
      progress.take(step(0), 0);
      progress.take(step(50), 50_000);
      return progress.secondsLeftOfRun(50_000);
    };
    // The stage takes 100 s, 50 of them are over.
    expect(estimate()).toBeCloseTo(150, 6);
    expect(estimate([4, 1])).toBeCloseTo(75, 6);
  });
});

describe('renderBlock', () => {
  const events = [
    runStart(),
    stageStart(),
    step(25),
    evaluation(0, 0.81),
    step(40, undefined, { skipped: 3 }),
    evaluation(1, 0.9),
  ];

  test('shows stage, position, every term, rate, metrics, speed, waiting, memory, skipped steps and the time left', () => {
    const { progress, now } = progressAfter(events);
    const block = renderBlock(progress, { width: 120, colors: plain, now });
    for (const part of [
      'stage 1 of 2 teacher',
      '40 %',
      'epoch 2/4',
      '40/100',
      'left',
      'run ends in about',
      'ce 1.000',
      'kd 0.5000',
      'rate 0.0500',
      'top1 90.0 %',
      '1\u00a0234 items/s',
      'waiting for data 3 %',
      'memory 412 MB',
      'skipped 3',
    ]) {
      expect(block).toContain(part);
    }
  });

  test.each([200, 120, 80, 60, 40, 30, 20])('no line is wider than %d columns, with and without colour', (width) => {
    const long = { total: 1, [`strategy/${'very-long-term-name-'.repeat(3)}`]: 1e-9, 学習: 3 };
    const { progress, now } = progressAfter([
      ...events,
      step(41, long),
      { ...evaluation(1, 0.9), split: 'a-very-long-split-name' } as RunEvent,
    ]);
    for (const colors of [plain, createColors(true)]) {
      const block = renderBlock(progress, { width, colors, now });
      for (const line of block.split('\n')) expect(visibleWidth(line)).toBeLessThanOrEqual(width);
      expect(stripVTControlCharacters(block)).toBe(renderBlock(progress, { width, colors: plain, now }));
    }
  });

  test('the bar is as long as the share that is done', () => {
    const { progress, now } = progressAfter([runStart(), stageStart(), step(50)]);
    const [, bar] = renderBlock(progress, { width: 120, colors: plain, now }).split('\n');
    expect(bar!.match(/━/g)).toHaveLength(20);
    expect(bar!.match(/─/g)).toHaveLength(20);
  });

  test('a single term that is the total is shown once; NaN is seen', () => {
    const { progress, now } = progressAfter([
      runStart(),
      stageStart(),
      step(1, { total: Number.NaN, 'supervised/ce': Number.NaN }),
    ]);
    expect(renderBlock(progress, { width: 80, colors: plain, now })).toContain('NaN');
    const one = progressAfter([runStart(), stageStart(), step(1, { total: 2, 'supervised/ce': 2 })]);
    expect(renderBlock(one.progress, { width: 80, colors: plain, now: one.now }).match(/2\.000/g)).toHaveLength(1);
  });

  test('before the first step it says what is going on', () => {
    const { progress, now } = progressAfter([runStart()]);
    expect(renderBlock(progress, { width: 80, colors: plain, now })).toContain('preparing');
    progress.take(stageStart(), now);
    expect(renderBlock(progress, { width: 80, colors: plain, now })).toContain('recording');
  });

  test('sparkline', () => {
    expect(sparkline([0, 0.5, 1])).toBe('▁▅█');
    expect(sparkline([2, 2, Number.NaN])).toBe('▄▄ ');
  });
});

describe('PlainLogger', () => {
  test('writes a step line per interval, whatever the number of events', () => {
    const lines: string[] = [];
    let now = 0;
    const logger = new PlainLogger({
      write: (line) => lines.push(line),
      colors: plain,
      interval: 1000,
      now: () => now,
    });
    logger.on(runStart());
    logger.on(stageStart());
    for (let update = 1; update <= 100; update++) {
      now += 50;
      logger.on(step(update));
      logger.on(evaluation(0, 0.5));
    }
    logger.on({ type: 'stage-end', stage: 'teacher', metrics: { 'train/total': 1, 'dev/top1': 0.9 }, seconds: 5 });
    logger.on({ type: 'run-end', seconds: 5 });
    expect(lines.filter((line) => line.includes('items/s'))).toHaveLength(5);
    expect(lines.filter((line) => line.includes('dev  top1')).length).toBeLessThanOrEqual(50);
    expect(lines.filter((line) => line.startsWith('✓ teacher  dev top1 90.0 %'))).toHaveLength(1);
    expect(lines.join('\n')).not.toContain('\u001b');
  });

  test('tells where an interrupted run goes on, and nothing of being done', () => {
    const lines: string[] = [];
    const logger = new PlainLogger({ write: (line) => lines.push(line), colors: plain });
    logger.on(runStart());
    logger.on({ type: 'interrupted', signal: 'SIGINT', checkpoint: 'runs/x/checkpoints/a' });
    logger.on({ type: 'run-end', seconds: 1 });
    expect(lines.join('\n')).toContain('--run runs/x --resume');
    expect(lines.join('\n')).not.toContain('done in');
  });
});

describe('LiveLogger', () => {
  test('keeps lines above the block and takes the block away at the end', () => {
    const stream = Object.assign(new PassThrough(), { isTTY: true, columns: 90, rows: 30 });
    const logger = new LiveLogger(stream as unknown as NodeJS.WriteStream, plain);
    for (const event of [runStart(), stageStart(), step(10)]) logger.on(event);
    logger.on({ type: 'warning', code: 'W', message: 'look here' });
    logger.on({ type: 'run-end', seconds: 1 });
    logger.close();
    const text = stripVTControlCharacters(String(stream.read()));
    expect(text).toContain('warning look here [W]');
    expect(text).toContain('12\u00a0345');
    expect(text).toContain('loss');
    expect(text.trimEnd().endsWith('done in 1.0s')).toBe(true);
    // Nothing draws after the end.
    logger.on(step(11));
    expect(stream.read()).toBeNull();
  });
});

describe('tables', () => {
  test('the table of groups shows who trains at what rate, frozen ones without one', () => {
    const [header, stem, head, sum] = groupTable(GROUPS, plain, 100);
    expect(header!.split(/\s+/).filter(Boolean)).toEqual(['group', 'parameters', 'state', 'rate', 'decay', 'mode']);
    expect(stem).toMatch(/stem\s+432\s+frozen\s+–\s+–\s+infer/);
    expect(head).toMatch(/head\s+12\u00a0345\s+trains\s+0\.05\s+0\.0005\s+train/);
    expect(sum).toContain('12\u00a0345 of 12\u00a0777 parameters train');
  });

  test('columns that do not fit are left out from the right', () => {
    const columns = [{ title: 'name' }, { title: 'value', align: 'right' as const }, { title: 'note' }];
    const rows = [
      ['a', '1', 'x'.repeat(30)],
      ['bb', '22', 'y'],
    ];
    expect(textTable(columns, rows, { width: 20 })).toEqual(['name  value', 'a         1', 'bb       22']);
    expect(textTable(columns, rows)[1]).toBe(`a         1  ${'x'.repeat(30)}`);
  });

  test('wide characters take two columns', () => {
    expect(visibleWidth('学習')).toBe(4);
    expect(clip('学習データ', 5)).toBe('学習…');
    expect(clip('abc', 3)).toBe('abc');
  });
});
