import { describe, expect, test } from 'vitest';
import { pairedDifference, unpairedDifference, wilsonInterval } from '../../src/report/interval.ts';
import { seededNumbers } from './generator.ts';

describe('wilsonInterval', () => {
  test('equals published values', () => {
    // Newcombe 1998 (Statistics in Medicine 17, 857-872), table I, method 3: r/n = 81/263, 15/148, 0/20, 1/29.
    const published: [number, number, number, number][] = [
      [81, 263, 0.2553, 0.3662],
      [15, 148, 0.0624, 0.1605],
      [0, 20, 0, 0.1611],
      [1, 29, 0.0061, 0.1718],
    ];
    for (const [r, n, low, high] of published) {
      const interval = wilsonInterval(r / n, n);
      expect(interval.low).toBeCloseTo(low, 4);
      expect(interval.high).toBeCloseTo(high, 4);
    }
    expect(wilsonInterval(0.5, 0)).toEqual({ low: 0, high: 1 });
  });
});

describe('unpairedDifference', () => {
  test('equals a published value', () => {
    // Newcombe 1998 (Statistics in Medicine 17, 873-890), table II, case a, method 10: 56/70 - 48/80.
    const { difference, low, high } = unpairedDifference(56 / 70, 70, 48 / 80, 80);
    expect(difference).toBeCloseTo(0.2, 12);
    expect(low).toBeCloseTo(0.0524, 4);
    expect(high).toBeCloseTo(0.3339, 4);
  });
});

describe('pairedDifference', () => {
  test('is the exact difference, symmetric, and narrower than the unpaired one where the models agree', () => {
    const a = `${'1'.repeat(950)}${'0'.repeat(50)}`;
    const b = `${'1'.repeat(920)}${'0'.repeat(80)}`;
    const paired = pairedDifference(a, b);
    const unpaired = unpairedDifference(0.95, 1000, 0.92, 1000);
    expect(paired.difference).toBeCloseTo(0.03, 12);
    expect(paired.high - paired.low).toBeLessThan(0.75 * (unpaired.high - unpaired.low));
    const back = pairedDifference(b, a);
    expect([back.low, back.high]).toEqual([-paired.high, -paired.low]);
    expect(pairedDifference('', '').difference).toBe(0);
  });

  test('covers the true difference in about 95 of 100 samples', () => {
    const random = seededNumbers(3);
    let covered = 0;
    const trials = 2000;
    for (let trial = 0; trial < trials; trial++) {
      let a = '';
      let b = '';
      for (let i = 0; i < 200; i++) {
        const u = random();
        // Both right 0.8, only a 0.1, only b 0.05, none 0.05: a true difference of 0.05.
        a += u < 0.9 ? '1' : '0';
        b += u < 0.8 || (u >= 0.9 && u < 0.95) ? '1' : '0';
      }
      const { low, high } = pairedDifference(a, b);
      if (low <= 0.05 && 0.05 <= high) covered++;
    }
    expect(covered / trials).toBeGreaterThan(0.935);
    expect(covered / trials).toBeLessThan(0.975);
  });
});
