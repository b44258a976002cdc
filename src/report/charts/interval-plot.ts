import { formatPercent } from '../../loggers/quantities.ts';
import type { ComparisonRow } from '../comparison.ts';
import { type Html, html } from '../html.ts';
import { linearAxis, px } from './axis.ts';

/** Accuracies with their 95 % intervals on one axis: HTML rows, so that names wrap and text keeps its size on a phone. */
export function intervalPlot(rows: readonly ComparisonRow[], colorOf: (stage: string) => number): Html {
  const axis = linearAxis(
    rows.flatMap(({ interval }) => [interval.low, interval.high]),
    [0, 100],
    { ticks: 4, least: 0, most: 1 },
  );
  const shown = axis.ticks;
  const decimals = shown.length > 1 && shown[1]! - shown[0]! < 0.01 ? 1 : 0;
  return html`<div class="intervals" role="img" aria-label="${rows
    .map(
      ({ result, accuracy, interval }) =>
        `${result.stage} ${formatPercent(accuracy)}, ${formatPercent(interval.low)} to ${formatPercent(interval.high)}`,
    )
    .join('; ')}">
${rows.map(
  ({
    result,
    accuracy,
    interval,
  }) => html`<div class="interval-row s${colorOf(result.stage)}"><span class="interval-name">${result.stage}</span>
<span class="interval-track">${shown.map((tick) => html`<i class="interval-grid" style="left:${px(axis.at(tick))}%"></i>`)}
<i class="interval-bar" style="left:${px(axis.at(interval.low))}%;width:${px(axis.at(interval.high) - axis.at(interval.low))}%"></i>
<i class="interval-dot" style="left:${px(axis.at(accuracy))}%"></i></span>
<span class="interval-value">${formatPercent(accuracy)}</span></div>`,
)}
<div class="interval-row interval-axis"><span></span><span class="interval-track">${shown.map(
    (tick) => html`<i style="left:${px(axis.at(tick))}%">${formatPercent(tick, decimals)}</i>`,
  )}</span><span></span></div></div>`;
}
