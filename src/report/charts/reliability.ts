import { formatPercent } from '../../loggers/quantities.ts';
import { type Html, html } from '../html.ts';
import type { CalibrationBin } from '../report-data.ts';
import { px } from './axis.ts';

const SIZE = 150;
const LEFT = 34;
const TOP = 8;
const TICKS = [0, 0.5, 1] as const;

/** Accuracy against confidence: on the diagonal a model is as often right as it says. The area of a point is its share of the items. */
export function reliabilityDiagram(
  title: string,
  bins: readonly CalibrationBin[],
  ece: number | undefined,
  color: number,
): Html {
  const x = (value: number) => LEFT + value * SIZE;
  const y = (value: number) => TOP + (1 - value) * SIZE;
  const filled = bins.filter(({ count }) => count > 0);
  const total = filled.reduce((sum, { count }) => sum + count, 0);
  const path = filled
    .map(({ confidence, accuracy }, i) => `${i === 0 ? 'M' : 'L'}${px(x(confidence))} ${px(y(accuracy))}`)
    .join('');
  return html`<figure class="chart reliability"><figcaption>${title}${ece === undefined ? '' : html` <span class="muted">ECE ${formatPercent(ece)}</span>`}</figcaption>
<svg viewBox="0 0 ${LEFT + SIZE + 12} ${TOP + SIZE + 36}" role="img" aria-label="${`Reliability of ${title}: ${filled
    .map(
      ({ confidence, accuracy }) =>
        `confidence ${formatPercent(confidence, 0)}, accuracy ${formatPercent(accuracy, 0)}`,
    )
    .join('; ')}`}">
${TICKS.map(
  (tick) => html`<line class="grid" x1="${LEFT}" x2="${LEFT + SIZE}" y1="${px(y(tick))}" y2="${px(y(tick))}"/>
<line class="grid" x1="${px(x(tick))}" x2="${px(x(tick))}" y1="${TOP}" y2="${TOP + SIZE}"/>
<text class="tick" x="${LEFT - 6}" y="${px(y(tick) + 4)}" text-anchor="end">${tick}</text>
<text class="tick" x="${px(x(tick))}" y="${TOP + SIZE + 15}" text-anchor="middle">${tick}</text>`,
)}
<line class="diagonal" x1="${px(x(0))}" y1="${px(y(0))}" x2="${px(x(1))}" y2="${px(y(1))}"/>
<g class="s${color}"><path class="line thin" d="${path}"/>
${filled.map(
  ({ confidence, accuracy, count }) =>
    html`<circle class="dot" cx="${px(x(confidence))}" cy="${px(y(accuracy))}" r="${px(
      Math.max(2, 9 * Math.sqrt(count / total)),
    )}"><title>${count} items: confidence ${formatPercent(confidence)}, accuracy ${formatPercent(accuracy)}</title></circle>`,
)}</g>
<text class="tick" x="${LEFT + SIZE / 2}" y="${TOP + SIZE + 32}" text-anchor="middle">confidence</text>
</svg></figure>`;
}
