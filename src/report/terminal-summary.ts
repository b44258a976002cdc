import type { Colors } from '../loggers/colors.ts';
import { formatBytes, formatCount, formatPercent, formatPoints } from '../loggers/quantities.ts';
import { textTable } from '../loggers/text-table.ts';
import { compareStages, headlineOf } from './comparison.ts';
import type { ReportResult } from './report-data.ts';

/** `0.4137` -> `0.41 ms`, `12.3` -> `12 ms`. */
export function formatMilliseconds(milliseconds: number): string {
  return `${milliseconds < 10 ? milliseconds.toFixed(2) : milliseconds.toFixed(0)} ms`;
}

/** The table at the end of a run: what each model is worth and what it costs, the result in one line, where the report lies. */
export function terminalSummary(
  result: ReportResult,
  { colors, width, report }: { colors: Colors; width: number; report?: string | undefined },
): string {
  const rows = compareStages(result);
  const { row, baseline } = headlineOf(rows);
  const table = textTable(
    [
      { title: 'model' },
      { title: 'accuracy', align: 'right' },
      { title: 'gain', align: 'right' },
      { title: 'parameters', align: 'right' },
      { title: 'MACs', align: 'right' },
      { title: 'latency', align: 'right' },
      { title: 'file', align: 'right' },
      { title: 'architecture' },
    ],
    rows.map((entry) => {
      const { result: stage, accuracy, interval, gain } = entry;
      const half = ((interval.high - interval.low) / 2) * 100;
      return [
        entry === row ? colors.bold(stage.stage) : stage.stage,
        `${entry === row ? colors.bold(formatPercent(accuracy)) : formatPercent(accuracy)} ${colors.dim(`±${half.toFixed(1)}`)}`,
        gain === undefined ? '–' : painted(gain.difference, colors),
        formatCount(stage.parameters),
        formatCount(stage.macs),
        formatMilliseconds(stage.latencyMs),
        formatBytes(stage.bytes),
        colors.dim(stage.architecture),
      ];
    }),
    { width, indent: 2, header: colors.dim },
  );
  const lines = ['', ...table, ''];
  if (row.gain !== undefined && baseline !== undefined) {
    const { difference, low, high } = row.gain;
    const sure = low > 0 || high < 0 ? '' : colors.yellow(' (may be chance)');
    lines.push(
      `  ${colors.bold(row.result.stage)} against ${baseline.result.stage}: ${colors.bold(`${formatPoints(difference)} points`)} ${colors.dim(
        `95 % interval ${formatPoints(low)} to ${formatPoints(high)}, ${row.result.items} held-out images`,
      )}${sure}`,
    );
  }
  if (report !== undefined) lines.push(`  report: ${colors.cyan(report)}`);
  return lines.join('\n');
}

function painted(difference: number, colors: Colors): string {
  const text = formatPoints(difference);
  return difference > 0 ? colors.green(text) : difference < 0 ? colors.red(text) : text;
}
