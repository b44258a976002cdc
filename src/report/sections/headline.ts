import { formatBytes, formatInteger, formatPercent, formatPoints } from '../../loggers/quantities.ts';
import { intervalPlot } from '../charts/interval-plot.ts';
import type { ComparisonRow, Headline } from '../comparison.ts';
import { type Html, html } from '../html.ts';
import type { ReportData } from '../report-data.ts';
import { formatMilliseconds } from '../terminal-summary.ts';

/** The result first: one large figure, what it means, and the accuracies on one axis. */
export function headlineSection(
  { result }: ReportData,
  rows: readonly ComparisonRow[],
  { row, baseline, teacher }: Headline,
  colorOf: (stage: string) => number,
): Html {
  const { gain } = row;
  const figure = gain === undefined ? formatPercent(row.accuracy) : formatPoints(gain.difference);
  const unit = gain === undefined ? 'accuracy' : 'points';
  return html`<header class="hero">
<p class="eyebrow">${result.name}</p>
<h1 class="figure">${figure} <span>${unit}</span></h1>
<p class="lead">${sentence(result, row, baseline)}</p>
${gain !== undefined && gain.low <= 0 && gain.high >= 0 && html`<p class="note">The interval holds 0: on ${formatInteger(row.result.items)} images the difference may be chance.</p>`}
<dl class="facts">${facts(row, teacher).map(([value, name]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
${rows.length > 1 && intervalPlot(rows, colorOf)}
</header>`;
}

function sentence(result: ReportData['result'], row: ComparisonRow, baseline: ComparisonRow | undefined): Html {
  const { stage, architecture, items } = row.result;
  const what = row.role === 'student' ? 'distilled ' : '';
  const reach = html`<strong>${stage}</strong>, ${articleless(what, architecture)}, gets <strong class="nobreak">${formatPercent(row.accuracy)}</strong> of ${formatInteger(items)} held-out images right`;
  if (baseline === undefined || row.gain === undefined) {
    return html`${reach} (95 % interval ${formatPercent(row.interval.low)} to ${formatPercent(row.interval.high)}, split “${result.split}”).`;
  }
  const same =
    baseline.result.architecture === architecture
      ? 'the same network trained without a teacher'
      : baseline.result.architecture;
  return html`${reach}; <strong>${baseline.result.stage}</strong>, ${row.role === 'student' ? same : baseline.result.architecture}, gets <span class="nobreak">${formatPercent(baseline.accuracy)}</span>. The difference lies between ${formatPoints(row.gain.low)} and ${formatPoints(row.gain.high)} points with 95 % confidence.`;
}

const articleless = (what: string, architecture: string) => `a ${what}${architecture}`;

function facts(row: ComparisonRow, teacher: ComparisonRow | undefined): [string, string][] {
  const { parameters, macs, latencyMs, bytes } = row.result;
  const list: [string, string][] = [];
  if (teacher !== undefined) {
    if (teacher.accuracy > 0) list.push([formatPercent(row.accuracy / teacher.accuracy), "of the teacher's accuracy"]);
    list.push([`${(teacher.result.parameters / parameters).toFixed(1)}×`, 'fewer parameters']);
    if (macs > 0) list.push([`${(teacher.result.macs / macs).toFixed(1)}×`, 'less computation']);
  } else {
    list.push([formatInteger(parameters), 'parameters']);
  }
  list.push([formatMilliseconds(latencyMs), 'for an image']);
  list.push([formatBytes(bytes), 'weights file']);
  return list;
}
