import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Source } from '../../src/data/source.ts';
import { memorySource } from '../../src/data/sources/memory.ts';
import { ownSplits, selectLabelled, splitItems } from '../../src/data/split.ts';

function sourceOf(ids: readonly string[], label = (i: number) => i % 3): Source {
  return memorySource({
    images: new Uint8Array(ids.length),
    height: 1,
    width: 1,
    labels: ids.map((_, i) => label(i)),
    names: ['a', 'b', 'c'],
    ids,
  });
}
const numbered = (count: number, prefix = '') => Array.from({ length: count }, (_, i) => `${prefix}${i}`);

describe('splitItems', () => {
  it('divides all items where the shares come to 1, near the shares', () => {
    const splits = splitItems(sourceOf(numbered(10_000)), { train: 0.7, dev: 0.1, test: 0.2 });
    const all = Object.values(splits).flatMap((indices) => [...indices]);
    expect(all.sort((a, b) => a - b)).toEqual(Array.from({ length: 10_000 }, (_, i) => i));
    // Within four standard deviations of a binomial.
    expect(Math.abs(splits['train']!.length - 7000)).toBeLessThan(4 * Math.sqrt(10_000 * 0.7 * 0.3));
    expect(Math.abs(splits['dev']!.length - 1000)).toBeLessThan(4 * Math.sqrt(10_000 * 0.1 * 0.9));
  });

  it('does not move an item when others are added, removed or listed in another order', () => {
    const ids = numbered(200, 'img');
    const before = sourceOf(ids);
    const where = (source: Source) => {
      const map = new Map<string, string>();
      for (const [split, indices] of Object.entries(splitItems(source, { train: 0.5, test: 0.5 }, 'salt'))) {
        for (const index of indices) map.set(source.items[index]!.id, split);
      }
      return map;
    };
    const first = where(before);
    fc.assert(
      fc.property(fc.shuffledSubarray(ids, { minLength: 60 }), fc.nat(100), (some, more) => {
        const after = where(sourceOf([...numbered(more, 'new'), ...some]));
        for (const id of some) expect(after.get(id)).toBe(first.get(id));
      }),
    );
    const salted = splitItems(before, { train: 0.5, test: 0.5 }, 'other');
    expect([...salted['train']!]).not.toEqual([...splitItems(before, { train: 0.5, test: 0.5 }, 'salt')['train']!]);
  });

  it("takes the source's own splits, and shares of them", () => {
    const source = sourceOf([...numbered(1000, 'train/'), ...numbered(100, 'test/')]);
    expect(ownSplits(source.items)).toEqual(['train', 'test']);
    expect(ownSplits(sourceOf(['a/1', 'b/1', 'c/1', 'a/2', 'b/2']).items)).toEqual([]); // folders of classes
    expect(ownSplits(sourceOf(['train/1', 'train/2', '3']).items)).toEqual([]);
    const splits = splitItems(source, {
      train: { from: 'train', share: 0.9 },
      dev: { from: 'train', share: 0.1 },
      test: 'test',
    });
    expect(splits['train']!.length + splits['dev']!.length).toBe(1000);
    expect([...splits['test']!]).toEqual(Array.from({ length: 100 }, (_, i) => 1000 + i));
  });

  it('refuses what is wrong', () => {
    const source = sourceOf([...numbered(10, 'train/'), ...numbered(10, 'test/')]);
    const code = (rules: Parameters<typeof splitItems>[1]) => {
      try {
        splitItems(source, rules);
        return 'none';
      } catch (error) {
        return (error as { code: string }).code;
      }
    };
    expect(code({ train: 0.7, test: 0.4 })).toBe('DATA_SPLIT');
    expect(code({ all: 1, test: 'test' })).toBe('DATA_SPLIT');
    expect(code({ train: 'trian' })).toBe('UNKNOWN_SPLIT');
    expect(code({ train: 1e-9 })).toBe('DATA_EMPTY');
    expect(() => splitItems(source, { train: 'trian' })).toThrow(/did you mean "train"/);
    expect(() => splitItems(sourceOf(['x', 'y', 'x']), { train: 1 })).toThrow(
      expect.objectContaining({ code: 'DATA_DUPLICATE' }),
    );
  });
});

describe('selectLabelled', () => {
  const source = sourceOf(numbered(300));
  const train = splitItems(source, { train: 0.8, test: 0.2 })['train']!;
  const chosen = (labels: Int32Array) => new Set([...train].filter((index) => labels[index]! >= 0));

  it('keeps the number asked for, spread evenly over the classes', () => {
    for (const n of [3, 4, 30, 100]) {
      const labels = selectLabelled(source, train, n);
      const perClass = [0, 0, 0];
      for (const index of chosen(labels)) perClass[labels[index]!]! += 1;
      expect(perClass.reduce((a, b) => a + b)).toBe(n);
      expect(Math.max(...perClass) - Math.min(...perClass)).toBeLessThanOrEqual(1);
      for (const [index, { label }] of source.items.entries()) {
        expect([-1, label]).toContain(labels[index]);
        if (!train.includes(index)) expect(labels[index]).toBe(label);
      }
    }
  });

  it('contains the smaller choice in the larger one', () => {
    fc.assert(
      fc.property(fc.integer({ min: 3, max: 200 }), fc.integer({ min: 0, max: 30 }), (n, more) => {
        const small = chosen(selectLabelled(source, train, n));
        const large = chosen(selectLabelled(source, train, n + more));
        for (const index of small) expect(large.has(index)).toBe(true);
      }),
    );
  });

  it('lets the others make up for a class that runs out', () => {
    const uneven = sourceOf(numbered(60), (i) => (i < 4 ? 0 : 1 + (i % 2)));
    const all = Array.from({ length: 60 }, (_, i) => i);
    const labels = selectLabelled(uneven, all, 24);
    const counts = [0, 1, 2].map((label) => labels.filter((other) => other === label).length);
    expect(counts).toEqual([4, 10, 10]);
  });

  it('takes numbers for each class by name', () => {
    const labels = selectLabelled(source, train, { a: 5, c: 2 });
    expect([0, 1, 2].map((label) => [...train].filter((index) => labels[index] === label).length)).toEqual([5, 0, 2]);
    expect(() => selectLabelled(source, train, { d: 1 })).toThrow(expect.objectContaining({ code: 'UNKNOWN_LABEL' }));
    expect(() => selectLabelled(source, train, { a: 500 })).toThrow(expect.objectContaining({ code: 'DATA_LABELLED' }));
  });

  it('refuses numbers that do not fit', () => {
    for (const n of [2, 1000, 3.5, -1]) {
      expect(() => selectLabelled(source, train, n)).toThrow(expect.objectContaining({ code: 'DATA_LABELLED' }));
    }
  });
});
