import nodeFs, { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { engine } from '../../src/engine/engine.ts';
import { openSafetensors, writeSafetensors } from '../../src/formats/safetensors.ts';
import type { Listener, RunEvent } from '../../src/plugin-host/contract.ts';
import { evaluateModels } from '../../src/train/evaluate-models.ts';
import { type RunOptions, readRunSummary, runRecipe } from '../../src/train/run.ts';
import { openTestEngine } from '../engine-setup.ts';
import { loadText, RECIPE } from './run-setup.ts';

let root: string;
let number = 0;
const newFolder = () => join(root, `run-${number++}`);

beforeAll(async () => {
  await openTestEngine();
  root = await mkdtemp(join(tmpdir(), 'alambic-run-'));
});
afterEach(() => vi.restoreAllMocks());
afterAll(() => rm(root, { recursive: true, force: true }));

/** The recipe with changes of its text. */
function changed(...changes: [from: string | RegExp, to: string][]): string {
  return changes.reduce((text, [from, to]) => {
    const next = text.replace(from, to);
    if (next === text) throw new Error(`nothing to change: ${from}`);
    return next;
  }, RECIPE);
}

/** Runs a text; the run folder, what came out, and the events. */
async function run(text = RECIPE, options: RunOptions = {}) {
  const events: RunEvent[] = [];
  const folder = options.folder ?? newFolder();
  const result = await runRecipe(await loadText(text), {
    ...options,
    folder,
    listeners: [{ on: (event) => void events.push(event) }, ...(options.listeners ?? [])],
  });
  return { ...result, events };
}

const SHORT = () => changed([/epochs: 6/g, 'epochs: 1']);
const bits = async (folder: string, stage: string) =>
  (await readFile(join(folder, 'models', stage, 'model.safetensors'))).toString('base64');

describe('stopping and going on', () => {
  test('a signal between two stages, within one, in an evaluation and at the end', async () => {
    const straight = await run(changed([/epochs: 6/g, 'epochs: 2']));
    const folder = newFolder();
    const stopAt: ((event: RunEvent) => boolean)[] = [
      ({ type }) => type === 'evaluation',
      (event) => event.type === 'stage-end',
      (event) => event.type === 'step' && event.stage === 'distil' && event.update === 3,
    ];
    for (const [i, wants] of stopAt.entries()) {
      const abort = new AbortController();
      const { interrupted, events } = await run(changed([/epochs: 6/g, 'epochs: 2'], ['saveEvery: 2', 'logEvery: 1']), {
        folder,
        resume: i > 0,
        signal: abort.signal,
        listeners: [{ on: (event) => void (wants(event) && abort.abort('SIGTERM')) }],
      });
      expect(interrupted, `stop ${i}`).toBe(true);
      expect(events.find(({ type }) => type === 'interrupted')).toMatchObject({ signal: 'SIGTERM' });
      expect((await readRunSummary(folder)).finished).toBe(false);
    }
    const end = await run(changed([/epochs: 6/g, 'epochs: 2']), { folder, resume: true });
    expect(end.interrupted).toBe(false);
    for (const stage of ['teach', 'distil']) expect(await bits(folder, stage)).toBe(await bits(straight.folder, stage));

    // Once more: everything is done, nothing trains, the result stays.
    const before = await readFile(join(folder, 'models', 'distil', 'model.safetensors'));
    const again = await run(changed([/epochs: 6/g, 'epochs: 2']), { folder, resume: true });
    expect(again.events.map(({ type }) => type)).toEqual(['run-start', 'run-end']);
    expect(again.summary.stages.map(({ metrics }) => metrics)).toEqual(
      end.summary.stages.map(({ metrics }) => metrics),
    );
    expect(await readFile(join(folder, 'models', 'distil', 'model.safetensors'))).toEqual(before);
  });

  test('a stage whose training ended, but not its summary, is summed up without training again', async () => {
    const straight = await run(SHORT());
    const folder = newFolder();
    const broken: Listener = {
      on: (event) => {
        if (event.type === 'stage-end' && event.stage === 'distil') throw new Error('killed');
      },
    };
    await expect(run(SHORT(), { folder, listeners: [broken] })).rejects.toThrow('killed');
    const { events } = await run(SHORT(), { folder, resume: true });
    expect(events.filter(({ type }) => type === 'step')).toEqual([]);
    expect(await bits(folder, 'distil')).toBe(await bits(straight.folder, 'distil'));
  });
});

test('going on under another recipe is said', async () => {
  const folder = newFolder();
  await run(SHORT(), { folder });
  const same = await run(SHORT(), { folder, resume: true });
  const other = await run(changed([/epochs: 6/g, 'epochs: 2']), { folder, resume: true });
  const codes = ({ events }: { events: RunEvent[] }) =>
    events.flatMap((event) => (event.type === 'warning' ? [event.code] : []));
  expect(codes(same)).not.toContain('RECIPE_CHANGED');
  expect(codes(other)).toContain('RECIPE_CHANGED');
});

describe('no run leaves tensors behind', () => {
  test('whether it ends or fails', async () => {
    await run(SHORT());
    const before = engine().tensorCount();
    await run(SHORT());
    expect(engine().tensorCount()).toBe(before);
    const fail: Listener = {
      on: (event) => {
        if (event.type === 'epoch-end' && event.stage === 'distil') throw new Error('listener');
      },
    };
    const folder = newFolder();
    await expect(run(SHORT(), { folder, listeners: [fail] })).rejects.toThrow('listener');
    expect(engine().tensorCount()).toBe(before);
    // Nor a lock.
    await run(SHORT(), { folder, resume: true });
  });

  test('a listener that fails when it is closed does not keep the folder locked', async () => {
    const folder = newFolder();
    const closing: Listener = {
      on: () => undefined,
      close: () => {
        throw new Error('closing');
      },
    };
    await expect(run(SHORT(), { folder, listeners: [closing] })).rejects.toThrow('closing');
    await run(SHORT(), { folder, resume: true });
  });
});

describe('bad input is a clear error before anything trains', () => {
  test.each<[string, string, string, RegExp]>([
    [
      'a metric to keep by that is not measured',
      changed(['best: 1', 'best: 1, monitor: dev/top2']),
      'UNKNOWN_METRIC',
      /run\.keep\.monitor.*"dev\/top2".*did you mean "dev\/top1"/,
    ],
    [
      'a metric to wait for that is not measured',
      changed(['batch: 16', 'batch: 16\n    patience: 2\n    monitor: dev/f2']),
      'UNKNOWN_METRIC',
      /stages\.teach\.monitor/,
    ],
    ['more labelled items than there are', changed(['labelled: 12', 'labelled: 5000']), 'DATA_LABELLED', /5000/],
    ['an empty split', changed(['source: stripes', 'source: { use: stripes, count: 2 }']), 'DATA_EMPTY', /split/],
    ['no split to train on', changed(['train: 0.6', 'learn: 0.6']), 'DATA_SPLIT', /"train"/],
    [
      'a size that the network cannot take',
      changed(['input: [8, 8, 1]', 'input: [8, 8, 2]']),
      'DATA_CHANNELS',
      /channel/,
    ],
    [
      'a term of a later stage that has no teacher',
      changed(['    teachers: { teacher: teacher }\n', '']),
      'PRECONDITION',
      /needs one teacher/,
    ],
    [
      'patience with nothing evaluated',
      changed(['dev: 0.2, ', ''], ['batch: 16', 'batch: 16\n    patience: 2']),
      'UNKNOWN_METRIC',
      /nothing is evaluated/,
    ],
  ])('%s', async (_, text, code, message) => {
    const events: RunEvent[] = [];
    await expect(run(text, { listeners: [{ on: (event) => void events.push(event) }] })).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message),
    });
    expect(events.filter(({ type }) => type === 'step')).toEqual([]);
  });

  test('a teacher below its floor', async () => {
    const text = changed(
      ['teachers: { teacher: teacher }', 'teachers: { teacher: { model: teacher, floor: 1 } }'],
      [/epochs: 6/g, 'epochs: 1'],
      ['rate: 0.01', 'rate: 1e-9'],
    );
    const folder = newFolder();
    await expect(run(text, { folder })).rejects.toMatchObject({
      code: 'TEACHER_FLOOR',
      message: expect.stringMatching(/teacher "teacher" of stage "distil" .* its floor is 1/),
    });
    // What the first stage did is there.
    expect((await readRunSummary(folder)).stages.map(({ stage }) => stage)).toEqual(['teach']);
  });

  test('a run folder that is a file', async () => {
    const folder = newFolder();
    await writeFile(folder, 'a file');
    await expect(run(RECIPE, { folder })).rejects.toMatchObject({ code: 'RUN_FOLDER_IS_FILE' });
  });

  test('a disk that fills up in the middle: what was saved goes on afterwards', async () => {
    const straight = await run(SHORT());
    const folder = newFolder();
    const write = nodeFs.open.bind(nodeFs);
    let saves = 0;
    vi.spyOn(nodeFs, 'open').mockImplementation((async (path: string, ...rest: never[]) => {
      if (String(path).includes('state.safetensors') && ++saves > 3)
        throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
      return write(path, ...rest);
    }) as typeof nodeFs.open);
    await expect(run(SHORT(), { folder })).rejects.toMatchObject({
      code: 'CHECKPOINT_NO_SPACE',
      hint: expect.stringContaining('--resume'),
    });
    vi.restoreAllMocks();
    await run(SHORT(), { folder, resume: true });
    for (const stage of ['teach', 'distil']) expect(await bits(folder, stage)).toBe(await bits(straight.folder, stage));
  });
});

describe('weights to start from', () => {
  const from = (path: string) =>
    changed(
      [/epochs: 6/g, 'epochs: 1'],
      ['{ use: cnn, widths: [6, 8], dropRate: 0.1 }', `{ use: cnn, widths: [6, 8], weights: ${path} }`],
    );

  test('that are not finite, of another architecture, of other classes, or missing', async () => {
    const { folder } = await run(SHORT());
    const model = join(folder, 'models', 'teach');
    await run(from(model), { limitUpdates: 1 });

    await expect(run(from(join(folder, 'models', 'distil')))).rejects.toMatchObject({ code: 'MODEL_WEIGHTS' });
    await expect(run(from(join(folder, 'nowhere')))).rejects.toMatchObject({ code: 'MODEL_MISSING' });
    const others = await run(
      changed([/epochs: 6/g, 'epochs: 1'], ['source: stripes', 'source: { use: stripes, classes: 4 }']),
    );
    await expect(run(from(join(others.folder, 'models', 'teach')))).rejects.toMatchObject({
      code: expect.stringMatching(/MODEL_WEIGHTS|LABELS_MISMATCH/),
    });

    const file = await openSafetensors(join(model, 'model.safetensors'));
    const tensors = Object.fromEntries(
      await Promise.all([...file.entries.keys()].map(async (name) => [name, await file.read(name)] as const)),
    );
    await file.close();
    (tensors['fc.bias']!.data as Float32Array)[0] = Number.NaN;
    const poisoned = join(root, 'poisoned');
    await mkdir(poisoned);
    await writeSafetensors(join(poisoned, 'w.safetensors'), tensors);
    await expect(run(from(join(poisoned, 'w.safetensors')))).rejects.toMatchObject({
      code: 'MODEL_WEIGHTS',
      message: expect.stringMatching(/not finite, in fc\.bias/),
    });
  });

  test('a saved model is measured alike by a run and by itself; an unknown split is an error', async () => {
    const { folder, summary } = await run(SHORT());
    const loaded = await loadText(SHORT());
    const [model] = await evaluateModels(loaded, [join(folder, 'models', 'teach')], { split: 'test' });
    expect(model!.metrics).toEqual(summary.stages[0]!.metrics);
    await expect(evaluateModels(loaded, [join(folder, 'models', 'teach')], { split: 'tset' })).rejects.toMatchObject({
      code: 'UNKNOWN_SPLIT',
      message: expect.stringContaining('did you mean "test"'),
    });
  });
});

test('items without a label count for distillation only', async () => {
  const { events, summary } = await run(changed([/epochs: 6/g, 'epochs: 2'], ['labelled: 12', 'labelled: 3']));
  const steps = events.flatMap((event) => (event.type === 'step' && event.stage === 'distil' ? [event.losses] : []));
  expect(steps.length).toBeGreaterThan(0);
  expect(summary.stages.map(({ stage }) => stage)).toEqual(['teach', 'distil']);
  // Most windows of 16 of 96 items hold none of the three labels: their cross-entropy is 0, their distillation loss is not.
  expect(summary.stages[1]!.history[1]!['train/distillation/kd']).toBeGreaterThan(0);
});

test('a teacher that is the student, or that has learned nothing, is an error', async () => {
  const teacher = (name: string): [string, string] => [
    'teachers: { teacher: teacher }',
    `teachers: { teacher: ${name} }`,
  ];
  await expect(run(changed(teacher('student')))).rejects.toThrow('expected a teacher other than the student');
  const other = changed(teacher('other'), ['models:', 'models:\n  other: { use: cnn, widths: [4] }']);
  await expect(run(other)).rejects.toThrow('"other" would have random values');
});
