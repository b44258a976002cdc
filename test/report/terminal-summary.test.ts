import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from 'vitest';
import { createColors } from '../../src/loggers/colors.ts';
import { visibleWidth } from '../../src/loggers/text-table.ts';
import { terminalSummary } from '../../src/report/terminal-summary.ts';
import { exampleReport } from './example.ts';

describe('terminalSummary', () => {
  const { result } = exampleReport();

  test('shows every model with what it costs, the gain and the report', () => {
    const text = terminalSummary(result, { colors: createColors(false), width: 120, report: 'runs/first/report.html' });
    for (const { stage } of result.stages) expect(text).toContain(stage);
    expect(text).toMatch(
      /student against alone: \+\d\.\d points 95 % interval \+\d\.\d to \+\d\.\d, 2000 held-out images/,
    );
    expect(text).toContain('report: runs/first/report.html');
    for (const unit of ['272 k', '40.5 M', '1.42 ms', '1.10 MB']) expect(text).toContain(unit);
  });

  test('the table never is wider than the terminal; colour changes no letter', () => {
    for (const width of [120, 80, 60, 40, 20]) {
      const text = terminalSummary(result, { colors: createColors(false), width });
      const table = text.split('\n').slice(1, 2 + result.stages.length);
      for (const line of table) expect(visibleWidth(line)).toBeLessThanOrEqual(width);
      const coloured = terminalSummary(result, { colors: createColors(true), width });
      expect(coloured).not.toBe(text);
      expect(stripVTControlCharacters(coloured)).toBe(text);
    }
  });
});
