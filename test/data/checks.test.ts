import { describe, expect, it } from 'vitest';
import { checkData } from '../../src/data/checks.ts';
import { memorySource } from '../../src/data/sources/memory.ts';
import { AlambicError } from '../../src/errors.ts';

const make = (rows: readonly (readonly number[])[], labels: readonly number[], names = ['a', 'b']) =>
  memorySource({ images: Uint8Array.from(rows.flat()), height: 1, width: 2, labels, names });
const codes = async (...args: Parameters<typeof checkData>) =>
  (await checkData(...args)).findings.map(({ code }) => code).sort();
const of = (...indices: number[]) => Int32Array.from(indices);

describe('checkData', () => {
  it('finds nothing in sound data', async () => {
    const source = make(
      [
        [0, 255],
        [3, 4],
        [5, 6],
        [7, 8],
      ],
      [0, 1, 0, 1],
    );
    const report = await checkData(source, { train: of(0, 1), test: of(2, 3) });
    expect(report).toEqual({ counts: { train: [1, 1], test: [1, 1] }, range: [0, 255], read: 4, findings: [] });
  });

  it('finds an image that is in two splits, and one that is twice in one', async () => {
    const source = make(
      [
        [1, 9],
        [3, 4],
        [1, 9],
        [3, 4],
      ],
      [0, 1, 0, 1],
    );
    const report = await checkData(source, { train: of(0, 1, 3), test: of(2) });
    expect(report.findings.find(({ code }) => code === 'DATA_LEAK')?.message).toBe(
      '1 image(s) are in two splits: 0 (train) = 2 (test)',
    );
    expect(report.findings.find(({ code }) => code === 'DATA_TWICE')?.message).toContain('1 (train) = 3 (train)');
  });

  it('finds missing and rare classes, by the labels that are used', async () => {
    const rows = Array.from({ length: 23 }, (_, i) => [i, 200]);
    const source = make(
      rows,
      Array.from({ length: 23 }, (_, i) => (i < 2 ? 0 : 1)),
    );
    const all = Int32Array.from(rows.keys());
    expect(await codes(source, { train: all })).toEqual(['DATA_BALANCE']);
    expect(await codes(source, { train: all }, { imbalance: 20 })).toEqual([]);
    expect(await codes(source, { train: all }, { labels: rows.map(() => 1) })).toEqual(['DATA_CLASS']);
  });

  it('finds values of 0..1, plain images and unreadable ones', async () => {
    const source = make(
      [
        [0, 1],
        [1, 1],
        [1, 0],
      ],
      [0, 1, 1],
    );
    expect(await codes(source, { train: of(0, 1, 2) })).toEqual(['DATA_CONSTANT', 'DATA_RANGE']);
    const broken = {
      ...make([[0, 255]], [0], ['a']),
      readSync: () => {
        throw new AlambicError('DATA_UNREADABLE', 'cut short');
      },
    };
    expect(await codes(broken, { train: of(0) })).toEqual(['DATA_UNREADABLE']);
  });

  it('reads evenly spaced images up to a limit', async () => {
    const source = make(
      Array.from({ length: 100 }, (_, i) => [i, 255 - i]),
      Array.from({ length: 100 }, (_, i) => i % 2),
    );
    const report = await checkData(source, { all: Int32Array.from({ length: 100 }, (_, i) => i) }, { limit: 10 });
    expect(report.read).toBe(10);
    expect(report.range[1]).toBe(255);
  });
});
