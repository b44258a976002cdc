import { formatNumber } from '../../loggers/quantities.ts';
import { clip } from '../../loggers/text-table.ts';
import { type Html, html } from '../html.ts';
import { linearAxis, px, spreadApart } from './axis.ts';

export interface LineSeries {
  readonly label: string;
  readonly points: readonly (readonly [x: number, y: number])[];
  /** 1 to 6: a colour of the palette, and a dash pattern so that colour is not all that tells lines apart. */
  readonly color: number;
}

export interface LineChart {
  readonly title: string;
  readonly series: readonly LineSeries[];
  readonly xLabel: string;
  readonly format: (value: number) => string;
  /** Text of a tick on the y axis, where it is not a plain number. */
  readonly formatTick?: (value: number) => string;
  readonly wholeX?: boolean;
  readonly least?: number;
  readonly most?: number;
}

const WIDTH = 340;
const HEIGHT = 208;
const TOP = 12;
const BOTTOM = 176;
const LEFT = 46;
const RIGHT = 262;
const MOST_POINTS = 300;

/** A chart of lines with axes, ticks and a label at the end of each line. */
export function lineChart({ title, series, xLabel, format, formatTick, wholeX = false, ...limits }: LineChart): Html {
  const drawn = series.filter(({ points }) => points.length > 0);
  const xs = drawn.flatMap(({ points }) => points.map(([x]) => x));
  const ys = drawn.flatMap(({ points }) => points.map(([, y]) => y));
  const y = linearAxis(ys, [BOTTOM, TOP], limits);
  const x = tightAxis(xs, wholeX);
  const lasts = drawn.map(({ points }) => points.at(-1)!);
  const labels = spreadApart(
    lasts.map(([, last]) => y.at(last)),
    14,
    TOP,
    BOTTOM,
  );
  const description = drawn
    .map(({ label, points }) => `${label} from ${format(points[0]![1])} to ${format(points.at(-1)![1])}`)
    .join('; ');
  return html`<figure class="chart"><figcaption>${title}</figcaption>
<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${`${title}: ${description}`}">
${y.ticks.map(
  (tick) => html`<line class="grid" x1="${LEFT}" x2="${RIGHT}" y1="${px(y.at(tick))}" y2="${px(y.at(tick))}"/>
<text class="tick" x="${LEFT - 7}" y="${px(y.at(tick) + 4)}" text-anchor="end">${(formatTick ?? plainTick(y.ticks))(tick)}</text>`,
)}
${x.ticks.map((tick) => html`<text class="tick" x="${px(x.at(tick))}" y="${BOTTOM + 16}" text-anchor="middle">${shortNumber(tick)}</text>`)}
<line class="axis" x1="${LEFT}" x2="${RIGHT}" y1="${BOTTOM}" y2="${BOTTOM}"/>
<text class="tick" x="${(LEFT + RIGHT) / 2}" y="${HEIGHT - 2}" text-anchor="middle">${xLabel}</text>
${drawn.map((line, i) => lineOf(line, x.at, y.at, labels[i]!, format))}
</svg></figure>`;
}

function lineOf(
  { label, points, color }: LineSeries,
  x: (value: number) => number,
  y: (value: number) => number,
  labelAt: number,
  format: (value: number) => string,
): Html {
  const kept = thinOut(points);
  const path = kept.map(([a, b], i) => `${i === 0 ? 'M' : 'L'}${px(x(a))} ${px(y(b))}`).join('');
  const [lastX, lastY] = points.at(-1)!;
  const dots = points.length <= 16 ? points : [points.at(-1)!];
  return html`<g class="s${color}"><title>${label}: ${format(lastY)}</title>
<path class="line" d="${path}"/>
${dots.map(([a, b]) => html`<circle class="dot" cx="${px(x(a))}" cy="${px(y(b))}" r="2.2"/>`)}
<path class="leader" d="M${px(x(lastX) + 3)} ${px(y(lastY))}L${RIGHT + 6} ${px(labelAt)}"/>
<text class="label" x="${RIGHT + 9}" y="${px(labelAt + 4)}">${clip(label, 12)}</text></g>`;
}

/** The x axis ends where the lines end. */
function tightAxis(values: readonly number[], whole: boolean) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const { ticks } = linearAxis(values, [0, 1], { ticks: 4, whole });
  const inside = values.length === 0 || low === high ? [low] : ticks.filter((tick) => tick >= low && tick <= high);
  const at = (value: number) =>
    high === low ? (LEFT + RIGHT) / 2 : LEFT + 4 + ((value - low) / (high - low)) * (RIGHT - LEFT - 8);
  return { ticks: inside.filter(Number.isFinite), at };
}

/** At most `MOST_POINTS` points; the last one always stays. */
function thinOut<T>(points: readonly T[]): readonly T[] {
  if (points.length <= MOST_POINTS) return points;
  const stride = points.length / MOST_POINTS;
  const kept = Array.from({ length: MOST_POINTS }, (_, i) => points[Math.floor(i * stride)]!);
  return [...kept, points.at(-1)!];
}

/** All ticks of an axis with the decimals that its step needs. */
function plainTick(ticks: readonly number[]): (value: number) => string {
  const step = Math.abs((ticks[1] ?? 1) - (ticks[0] ?? 0));
  if (step < 1e-4 || step >= 1e5) return (value) => formatNumber(value, 2);
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return (value) => value.toFixed(decimals);
}

function shortNumber(value: number): string {
  return value >= 10_000 ? `${Number((value / 1000).toPrecision(3))}k` : String(value);
}
