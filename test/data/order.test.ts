import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { murmur3, unitHash } from '../../src/data/hash.ts';
import { compareNaturally } from '../../src/data/natural-order.ts';
import { epochOrder } from '../../src/data/order.ts';

describe('murmur3', () => {
  it('equals the published test vectors', () => {
    expect(murmur3('')).toBe(0);
    expect(murmur3('', 1)).toBe(0x514e28b7);
    expect(murmur3('', 0xffffffff)).toBe(0x81f16f39);
    expect(murmur3('test')).toBe(0xba6bd213);
    expect(murmur3('test', 0x9747b28c)).toBe(0x704b81dc);
    expect(murmur3('Hello, world!', 0x9747b28c)).toBe(0x24884cba);
    expect(murmur3('The quick brown fox jumps over the lazy dog', 0x9747b28c)).toBe(0x2fa826cd);
    expect(murmur3('ππππππππ', 0x9747b28c)).toBe(0xd58063c1);
  });

  it('spreads ids evenly over 0..1', () => {
    const bins = new Array<number>(20).fill(0);
    for (let i = 0; i < 20_000; i++) bins[Math.floor(unitHash(`train/${i}.jpg`) * 20)]! += 1;
    const chiSquare = bins.reduce((sum, n) => sum + (n - 1000) ** 2 / 1000, 0);
    expect(chiSquare).toBeLessThan(43.8); // 99.9 % quantile at 19 degrees of freedom
  });
});

describe('epochOrder', () => {
  it('is a permutation, a function of (length, seed, epoch)', () => {
    fc.assert(
      fc.property(fc.nat(500), fc.integer(), fc.nat(1000), (length, seed, epoch) => {
        const order = epochOrder(length, seed, epoch);
        expect([...order].sort((a, b) => a - b)).toEqual(Array.from({ length }, (_, i) => i));
        expect(epochOrder(length, seed, epoch)).toEqual(order);
      }),
    );
  });

  it('never changes between versions: a checkpoint depends on it', () => {
    expect([...epochOrder(10, 1, 0)]).toEqual([9, 0, 4, 6, 2, 8, 3, 7, 5, 1]);
    expect([...epochOrder(10, 1, 1)]).toEqual([5, 1, 0, 9, 3, 4, 2, 7, 8, 6]);
    expect([...epochOrder(10, 2, 0)]).toEqual([8, 3, 6, 9, 1, 0, 2, 7, 4, 5]);
  });

  it('gives every permutation of 4 items equally often', () => {
    const seen = new Map<string, number>();
    for (let epoch = 0; epoch < 24_000; epoch++) {
      const key = epochOrder(4, 7, epoch).join('');
      seen.set(key, (seen.get(key) ?? 0) + 1);
    }
    expect(seen.size).toBe(24);
    const chiSquare = [...seen.values()].reduce((sum, n) => sum + (n - 1000) ** 2 / 1000, 0);
    expect(chiSquare).toBeLessThan(49.7); // 99.9 % quantile at 23 degrees of freedom
  });
});

describe('compareNaturally', () => {
  it('counts as people do', () => {
    expect(['10', '2', '0', '1', '02'].sort(compareNaturally)).toEqual(['0', '1', '02', '2', '10']);
    expect(['img10.png', 'img9.png', 'Img9.png'].sort(compareNaturally)).toEqual(['img9.png', 'Img9.png', 'img10.png']);
  });

  it('is a total order: no two different names are equal', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (a, b) => {
        expect(compareNaturally(a, b) === 0).toBe(a === b);
        expect(Math.sign(compareNaturally(a, b)) + Math.sign(compareNaturally(b, a))).toBe(0);
      }),
    );
  });
});
