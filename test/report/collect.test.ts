import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import sharp from 'sharp';
import { describe, expect, test } from 'vitest';
import { logLine } from '../../src/loggers/log-lines.ts';
import type { RunEvent } from '../../src/plugin-host/contract.ts';
import { chooseSamples } from '../../src/report/choose-samples.ts';
import { collectReport, historyOf } from '../../src/report/collect.ts';
import { encodePng } from '../../src/report/png.ts';
import { renderReport } from '../../src/report/render.ts';
import type { RunSummary, StageSummary } from '../../src/train/run-result.ts';

const time = '2026-12-01T00:00:00.000Z';
const step = (update: number, rate: number): RunEvent => ({
  type: 'step',
  stage: 'a',
  epoch: 0,
  update,
  updates: 4,
  losses: { total: 1 },
  rate,
  itemsPerSecond: 1,
  waiting: 0,
  memoryBytes: 1,
  skipped: 0,
});
const epoch = (number: number, top1: number): RunEvent => ({
  type: 'epoch-end',
  stage: 'a',
  epoch: number,
  metrics: { 'train/total': 1, 'dev/top1': top1 },
  seconds: 1,
});
const start: RunEvent = { type: 'stage-start', stage: 'a', epochs: 2, updatesPerEpoch: 2, groups: [] };

describe('historyOf', () => {
  test('takes the later of two lines about one update or epoch, as a resume writes them', () => {
    const events = [
      start,
      step(1, 0.1),
      step(2, 0.2),
      epoch(0, 0.5),
      step(3, 0.3),
      start,
      step(2, 0.21),
      epoch(0, 0.6),
      step(4, 0.4),
      epoch(1, 0.7),
    ];
    const [stage] = historyOf(events.map((event) => ({ time, ...event })));
    expect(stage!.rate.points).toEqual([
      [1, 0.1],
      [2, 0.21],
      [4, 0.4],
    ]);
    expect(stage!.epochCurves.find(({ name }) => name === 'dev/top1')!.points).toEqual([
      [1, 0.6],
      [2, 0.7],
    ]);
  });

  test('leaves values out that are not finite', () => {
    const [stage] = historyOf([
      { time, ...start },
      { time, ...epoch(0, Number.NaN) },
      { time, ...epoch(1, 0.4) },
    ]);
    expect(stage!.epochCurves.find(({ name }) => name === 'dev/top1')!.points).toEqual([[2, 0.4]]);
  });
});

function stage(name: string, correct: string, teachers: string[] = []): StageSummary {
  const predicted = [...correct].map((hit, i) => (hit === '1' ? i % 2 : 1 - (i % 2)));
  return {
    stage: name,
    model: name,
    architecture: 'cnn',
    teachers,
    epochs: 2,
    updates: 4,
    seconds: 1,
    split: 'test',
    metrics: { top1: [...correct].filter((hit) => hit === '1').length / correct.length, loss: 0.4 },
    items: correct.length,
    confusion: [
      [1, 0],
      [0, 1],
    ],
    calibration: [{ items: 2, confidence: 0.8, accuracy: 1 }],
    outcomes: {
      correct,
      predicted,
      confidence: predicted.map(() => 0.8),
      truth: [...correct].map((hit) => (hit === '1' ? 0.8 : 0.2)),
    },
    parameters: 100,
    macs: 1000,
    latency: { median: 0.5, minimum: 0.4, runs: 3 },
    bytes: 400,
    modelFolder: `models/${name}`,
    groups: [],
    samples: [...correct].slice(0, 4).map((_, i) => ({
      id: `item ${i}`,
      item: i,
      label: i % 2,
      predicted: predicted[i]!,
      probability: 0.8,
      probabilities: predicted[i] === 0 ? [0.8, 0.2] : [0.2, 0.8],
      image: { height: 2, width: 2, channels: 1, base64: Buffer.from([0, 255, 255, 0]).toString('base64') },
    })),
    history: [],
  };
}

test('collectReport joins result, log and recipe; a sample has what every model said of it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'alambic-report-'));
  const summary: RunSummary = {
    format: 'alambic-result',
    version: 1,
    name: 'r',
    description: undefined,
    labels: ['even', 'odd'],
    stages: [
      stage('teacher', '111111'),
      stage('student', '111011', ['teacher']),
      { ...stage('alone', '010010'), samples: [] },
    ],
    compare: ['alone', 'student', 'teacher'],
    baseline: 'alone',
    finished: true,
    seconds: 3,
    environment: { node: 'v20', seed: 1 },
  };
  await writeFile(join(folder, 'result.json'), JSON.stringify(summary));
  await writeFile(join(folder, 'recipe.yaml'), 'name: r\n');
  const events: RunEvent[] = [
    { type: 'run-start', folder, stages: ['a'], resumed: false },
    start,
    step(1, 0.1),
    epoch(0, 0.5),
  ];
  const lines = [
    ...events,
    { type: 'warning', code: 'W', message: 'twice' } as const,
    { type: 'warning', code: 'W', message: 'twice' } as const,
  ];
  await writeFile(join(folder, 'run.jsonl'), lines.map((event) => logLine(event, new Date(time))).join(''));
  const data = await collectReport(folder);
  expect(data.result.stages.map(({ stage: name }) => name)).toEqual(['alone', 'student', 'teacher']);
  expect(data.result.startedAt).toBe(time);
  expect(data.warnings).toEqual([{ code: 'W', message: 'twice' }]);
  const first = data.result.samples.find(({ id }) => id === 'item 0')!;
  expect(first.predictions).toEqual([
    { stage: 'alone', predicted: 1, confidence: 0.8, truth: 0.2 },
    { stage: 'student', predicted: 0, confidence: 0.8, truth: 0.8 },
    { stage: 'teacher', predicted: 0, confidence: 0.8, truth: 0.8 },
  ]);
  expect(renderReport(data)).toContain('Right with student, wrong with alone');
});

test('collectReport names what is missing', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'alambic-report-'));
  await expect(collectReport(folder)).rejects.toMatchObject({ code: 'RUN_RESULT' });
});

describe('chooseSamples', () => {
  const verdicts = Array.from({ length: 300 }, (_, index) => ({
    index,
    model: index % 10 !== 0,
    baseline: index % 5 !== 0,
    truth: (index % 97) / 97,
  }));

  test('mixes what was gained, the surest mistakes and what is right, each item once', () => {
    const chosen = chooseSamples(verdicts, 18);
    expect(new Set(chosen).size).toBe(18);
    const kinds = chosen.map((i) => (!verdicts[i]!.model ? 'wrong' : verdicts[i]!.baseline ? 'right' : 'gained'));
    for (const kind of ['wrong', 'right', 'gained']) expect(kinds.filter((k) => k === kind)).toHaveLength(6);
    const wrong = chosen.filter((i) => !verdicts[i]!.model).map((i) => verdicts[i]!.truth);
    const least = verdicts
      .filter(({ model }) => !model)
      .map(({ truth }) => truth)
      .sort((a, b) => a - b)
      .slice(0, 6);
    expect(wrong.sort((a, b) => a - b)).toEqual(least);
  });

  test('fills up from the others where one kind is rare, and takes all of a small split', () => {
    expect(
      chooseSamples(
        verdicts.filter(({ model }) => model),
        18,
      ),
    ).toHaveLength(18);
    expect(chooseSamples(verdicts.slice(0, 5), 18).sort()).toEqual([0, 1, 2, 3, 4]);
  });
});

test('encodePng keeps small images bit by bit and shrinks large ones', async () => {
  const pixels = Uint8Array.from({ length: 28 * 28 }, (_, i) => i % 256);
  const back = await sharp(Buffer.from(await encodePng(pixels, [28, 28, 1]), 'base64'))
    .toColourspace('b-w')
    .raw()
    .toBuffer({ resolveWithObject: true });
  expect(back.info).toMatchObject({ width: 28, height: 28, channels: 1 });
  expect(Buffer.compare(back.data, Buffer.from(pixels))).toBe(0);
  const large = await sharp(
    Buffer.from(await encodePng(new Uint8Array(300 * 200 * 3), [300, 200, 3]), 'base64'),
  ).metadata();
  expect([large.width, large.height]).toEqual([64, 96]);
});
