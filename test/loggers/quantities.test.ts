import { describe, expect, test } from 'vitest';
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatInteger,
  formatMetric,
  formatNumber,
  formatPercent,
  formatPoints,
  formatSetting,
  isShare,
  shortNames,
} from '../../src/loggers/quantities.ts';

describe('numbers for people', () => {
  test.each([
    [0, '0'],
    [999, '999'],
    [1234, '1\u00a0234'],
    [1_234_567, '1\u00a0234\u00a0567'],
    [-1234, '-1\u00a0234'],
  ])('formatInteger(%d)', (value, text) => expect(formatInteger(value)).toBe(text));

  test.each([
    [0, '0'],
    [999, '999'],
    [999.6, '1.00 k'],
    [272_474, '272 k'],
    [11_181_642, '11.2 M'],
    [999_500, '1.00 M'],
    [1.8e9, '1.80 G'],
  ])('formatCount(%d)', (value, text) => expect(formatCount(value)).toBe(text));

  test.each([
    [12, '12 B'],
    [1_100_000, '1.10 MB'],
    [25_769_803_776, '25.8 GB'],
  ])('formatBytes(%d)', (value, text) => expect(formatBytes(value)).toBe(text));

  test.each([
    [0.123456, '0.1235'],
    [9.99999, '10.00'],
    [123.456, '123.5'],
    [12_345.6, '12346'],
    [0.00001234, '1.23e-5'],
    [1.5e9, '1.50e9'],
    [0, '0'],
    [Number.NaN, 'NaN'],
    [Number.NEGATIVE_INFINITY, '-∞'],
  ])('formatNumber(%d)', (value, text) => expect(formatNumber(value)).toBe(text));

  test.each([
    [0.05, '0.05'],
    [5e-4, '0.0005'],
    [1e-7, '1e-7'],
    [1 / 3, '0.3333'],
  ])('formatSetting(%d)', (value, text) => expect(formatSetting(value)).toBe(text));

  test.each([
    [3.14, '3.1s'],
    [59.7, '1m 00s'],
    [75, '1m 15s'],
    [3661, '1h 01m'],
    [90_000, '1d 01h'],
    [Number.POSITIVE_INFINITY, '–'],
  ])('formatDuration(%d)', (value, text) => expect(formatDuration(value)).toBe(text));

  test('percent, points, metrics', () => {
    expect(formatPercent(0.9134)).toBe('91.3 %');
    expect([0.0421, -0.0421, 0.0001, -0.0001].map(formatPoints)).toEqual(['+4.2', '−4.2', '0.0', '0.0']);
    expect(formatMetric('dev/top1', 0.5)).toBe('50.0 %');
    expect(formatMetric('dev/loss', 0.5)).toBe('0.5000');
    expect(['top5', 'test/ece', 'loss', 'topology'].map(isShare)).toEqual([true, true, false, false]);
  });

  test('shortNames drops what is before the slash unless it is needed', () => {
    expect([...shortNames(['supervised/ce', 'distillation/kd']).values()]).toEqual(['ce', 'kd']);
    expect([...shortNames(['a/kd', 'b/kd', 'c']).values()]).toEqual(['a kd', 'b kd', 'c']);
  });
});
