import nodeFs, { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CheckpointKeeper, type KeepRules, monitorMode } from '../../src/train/checkpoint-keeper.ts';
import { findBestCheckpoint, findLatestCheckpoint } from '../../src/train/checkpoint-search.ts';

let run: string;
let folder: string;
beforeEach(async () => {
  run = await mkdtemp(join(tmpdir(), 'alambic-keeper-'));
  folder = join(run, 'checkpoints');
});
afterEach(() => rm(run, { recursive: true }));

const content = (n: number) => ({ manifest: { n }, tensors: {}, texts: { 'n.txt': String(n) } });
const names = async () => (await readdir(folder)).sort();

/** Saves e0, e1, … with the given values of dev/top1; `undefined` = a save between evaluations. */
async function saveAll(keeper: CheckpointKeeper, values: readonly (number | undefined)[], stage = 'student', from = 0) {
  for (const [i, value] of values.entries())
    await keeper.save(`e${from + i}`, content(from + i), {
      stage,
      ...(value === undefined ? {} : { metrics: { 'dev/top1': value, 'dev/loss': -value } }),
    });
}

describe('keep rules', () => {
  const cases: [what: string, rules: KeepRules, values: (number | undefined)[], kept: string[]][] = [
    ['last 1 is the default', {}, [1, 2, 3], ['e2']],
    ['last 2', { last: 2 }, [1, 2, 3], ['e1', 'e2']],
    ['best 1 besides the last', { best: 1, monitor: 'dev/top1' }, [1, 3, 2, 1], ['e1', 'e3']],
    ['best 2, the smaller one', { best: 2, monitor: 'dev/top1', mode: 'min' }, [5, 1, 3, 2, 4], ['e1', 'e3', 'e4']],
    ['min by the name of a loss', { best: 1, monitor: 'dev/loss' }, [1, 3, 2, 1], ['e1', 'e3']],
    ['the first of equals', { best: 1, monitor: 'dev/top1' }, [2, 2, 2, 1], ['e0', 'e3']],
    ['a save between evaluations is never the best', { best: 1, monitor: 'dev/top1' }, [1, undefined, 0], ['e0', 'e2']],
    ['NaN is never the best', { best: 1, monitor: 'dev/top1' }, [Number.NaN, 1, Number.NaN, 0], ['e1', 'e3']],
    ['only NaN: the last', { best: 1, monitor: 'dev/top1' }, [Number.NaN, Number.NaN], ['e1']],
  ];
  it.each(cases)('%s', async (_, rules, values, kept) => {
    await saveAll(new CheckpointKeeper(folder, rules), values);
    expect(await names()).toEqual(kept);
  });

  it('equal a plain statement of the rules, with resumes at any point', async () => {
    const arbitrary = fc.record({
      last: fc.integer({ min: 1, max: 3 }),
      best: fc.nat({ max: 3 }),
      values: fc.array(fc.option(fc.nat({ max: 5 }), { nil: undefined }), { minLength: 1, maxLength: 8 }),
      resumes: fc.array(fc.nat({ max: 7 })),
    });
    await fc.assert(
      fc.asyncProperty(arbitrary, async ({ last, best, values, resumes }) => {
        await rm(folder, { recursive: true, force: true });
        const rules: KeepRules = { last, best, monitor: 'dev/top1' };
        let keeper = new CheckpointKeeper(folder, rules);
        for (const [i, value] of values.entries()) {
          if (resumes.includes(i))
            keeper = new CheckpointKeeper(folder, rules, { state: (await findLatestCheckpoint(run))?.keeper });
          await saveAll(keeper, [value], 'student', i);
        }
        // Each save keeps, of what is there and the new one, the last n and the best k.
        let expected: number[] = [];
        for (const i of values.keys()) {
          expected.push(i);
          const ranked = expected
            .filter((e) => values[e] !== undefined)
            .sort((a, b) => values[b]! - values[a]! || a - b);
          const keep = new Set([...expected.slice(-last), ...ranked.slice(0, best)]);
          expected = expected.filter((e) => keep.has(e));
        }
        expect(await names()).toEqual(expected.map((i) => `e${i}`));
        const top = [...values.keys()].filter((i) => values[i] !== undefined);
        const first = top.sort((a, b) => values[b]! - values[a]! || a - b)[0];
        if (best > 0) expect(keeper.best('student')).toBe(first === undefined ? undefined : join(folder, `e${first}`));
      }),
      { numRuns: 25 },
    );
  });

  it('rank each stage by itself, and never drop what is pinned', async () => {
    const keeper = new CheckpointKeeper(folder, { best: 1, monitor: 'dev/top1' });
    await saveAll(keeper, [0.9, 0.8], 'teacher');
    await keeper.save('teacher-end', content(9), { stage: 'teacher', pinned: true });
    await saveAll(keeper, [0.5, 0.6, 0.4], 'student', 2);
    expect(await names()).toEqual(['e0', 'e3', 'e4', 'teacher-end']);
    expect([keeper.best('teacher'), keeper.best('student'), keeper.best('other')]).toEqual([
      join(folder, 'e0'),
      join(folder, 'e3'),
      undefined,
    ]);
  });

  it('find the best from the folder alone, also after the monitored metric was changed', async () => {
    await saveAll(new CheckpointKeeper(folder, { last: 9, best: 1, monitor: 'dev/top1' }), [1, 3, 2]);
    expect((await findBestCheckpoint(run))?.manifest).toEqual({ n: 1 });
    const state = (await findLatestCheckpoint(run))?.keeper;
    const keeper = new CheckpointKeeper(folder, { last: 9, best: 1, monitor: 'dev/loss', mode: 'max' }, { state });
    expect(keeper.best('student')).toBe(join(folder, 'e0'));
    await saveAll(keeper, [1.5], 'student', 3);
    expect((await findBestCheckpoint(run, 'student'))?.manifest).toEqual({ n: 0 });
    expect(await findBestCheckpoint(run, 'teacher')).toBeUndefined();
  });

  it('need a plain folder name', async () => {
    const keeper = new CheckpointKeeper(folder, {});
    for (const name of ['', '.', '..', 'a/b', 'e1.tmp-1-00000000-1'])
      await expect(keeper.save(name, content(1), { stage: 's' })).rejects.toMatchObject({ code: 'CHECKPOINT_CONTENT' });
    await keeper.save('größe 1-e3', content(1), { stage: 'größe 1' });
  });

  it('guess the direction from the name', () => {
    expect(['dev/loss', 'dev/ce', 'train/kd_loss', 'dev/nll', 'error', 'dev/top1-error'].map(monitorMode)).toEqual(
      new Array(6).fill('min'),
    );
    expect(['dev/top1', 'dev/top5', 'accuracy', 'balance', 'dev/recall'].map(monitorMode)).toEqual(
      new Array(5).fill('max'),
    );
  });

  it('are checked', () => {
    for (const rules of [{ last: 0 }, { last: 1.5 }, { best: -1, monitor: 'x' }, { best: 1 }])
      expect(() => new CheckpointKeeper(folder, rules)).toThrow(
        expect.objectContaining({ code: 'CHECKPOINT_KEEP_RULE' }),
      );
  });
});

describe('nothing is lost', () => {
  it('a wrong metric name is told after the save', async () => {
    const keeper = new CheckpointKeeper(folder, { best: 1, monitor: 'dev/top2' });
    await expect(saveAll(keeper, [1])).rejects.toMatchObject({
      code: 'UNKNOWN_METRIC',
      message: 'unknown metric in run.keep.monitor "dev/top2": did you mean "dev/top1"?',
    });
    expect(await names()).toEqual(['e0']);
  });

  it('a failed save leaves the rules as they were', async () => {
    let full = false;
    const fs = new Proxy(nodeFs, {
      get: (target, name: keyof typeof nodeFs) =>
        full && name === 'open'
          ? () => Promise.reject(Object.assign(new Error('full'), { code: 'ENOSPC' }))
          : target[name],
    });
    const keeper = new CheckpointKeeper(folder, { last: 2 }, { fs });
    await saveAll(keeper, [1, 2]);
    full = true;
    await expect(saveAll(keeper, [3], 'student', 2)).rejects.toMatchObject({ code: 'CHECKPOINT_NO_SPACE' });
    expect(keeper.state.kept.map(({ name }) => name)).toEqual(['e0', 'e1']);
    expect(await names()).toEqual(['e0', 'e1']);
    full = false;
    await saveAll(keeper, [3], 'student', 3);
    expect(await names()).toEqual(['e1', 'e3']);
  });

  it('a damaged checkpoint takes no place from a good one', async () => {
    const warnings: string[] = [];
    const keeper = new CheckpointKeeper(folder, { last: 2 }, { warn: (_, message) => warnings.push(message) });
    await saveAll(keeper, [1, 2]);
    await writeFile(join(folder, 'e1', 'n.txt'), 'longer');
    await saveAll(keeper, [3], 'student', 2);
    expect(keeper.state.kept.map(({ name }) => name)).toEqual(['e0', 'e2']);
    expect(warnings).toEqual([expect.stringMatching(/^e1: n\.txt of checkpoint "e1": expected 1 bytes, got 6$/)]);
  });

  it('what cannot be deleted is a warning, and is tried again', async () => {
    let refuse = true;
    const fs = new Proxy(nodeFs, {
      get: (target, name: keyof typeof nodeFs) =>
        name === 'rename'
          ? (from: string, to: string) =>
              refuse && to.includes('.gone-') ? Promise.reject(new Error('busy')) : target.rename(from, to)
          : target[name],
    });
    const warnings: string[] = [];
    const keeper = new CheckpointKeeper(folder, {}, { fs, warn: (code, text) => warnings.push(`${code}: ${text}`) });
    await saveAll(keeper, [1, 2]);
    expect(warnings).toEqual(['CHECKPOINT_NOT_REMOVED: e0 could not be removed: busy']);
    refuse = false;
    await saveAll(keeper, [3], 'student', 2);
    expect(await names()).toEqual(['e2']);
  });

  it('saving under the same name again replaces it', async () => {
    const keeper = new CheckpointKeeper(folder, { best: 1, monitor: 'dev/top1' });
    await saveAll(keeper, [3, 2]);
    await saveAll(keeper, [1]);
    expect(keeper.state.kept.map(({ name, metrics }) => [name, metrics?.['dev/top1']])).toEqual([
      ['e1', 2],
      ['e0', 1],
    ]);
    expect(basename(keeper.best('student')!)).toBe('e1');
  });
});
