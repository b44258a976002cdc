import {
  formatDuration,
  formatInteger,
  formatNumber,
  formatPercent,
  isShare,
  shortNames,
} from '../../loggers/quantities.ts';
import { type LineSeries, lineChart } from '../charts/line-chart.ts';
import { type Html, html } from '../html.ts';
import type { Curve, ReportData, StageHistory } from '../report-data.ts';

/** Curves of each stage: losses, accuracy, learning rate. */
export function trainingSection({ result, history }: ReportData): Html {
  return html`<section id="training"><h2>Training</h2>
${history.map((stage) => {
  const finished = result.stages.find((entry) => entry.stage === stage.stage);
  const facts = [
    `${formatInteger(finished?.epochs ?? stage.epochs)} epochs`,
    ...(finished === undefined ? [] : [formatDuration(finished.seconds)]),
    ...(stage.ops === undefined ? [] : [`${formatInteger(stage.ops)} ops in the recorded step`]),
  ];
  return html`<article class="stage"><h3>${stage.stage} <small>${facts.join(' · ')}</small></h3><div class="charts">${chartsOf(stage)}</div></article>`;
})}</section>`;
}

function chartsOf({ epochCurves, rate }: StageHistory): Html[] {
  const losses = lossCurves(epochCurves);
  const shares = epochCurves.filter(({ name }) => isShare(name) && !name.endsWith('/ece'));
  const charts: Html[] = [];
  if (losses.length > 0) {
    charts.push(
      lineChart({
        title: 'Loss',
        series: seriesOf(losses),
        xLabel: 'epoch',
        format: (v) => formatNumber(v, 3),
        wholeX: true,
        least: 0,
      }),
    );
  }
  if (shares.length > 0) {
    const decimals = spanOf(shares) < 0.04 ? 1 : 0;
    charts.push(
      lineChart({
        title: 'Accuracy',
        series: seriesOf(shares),
        xLabel: 'epoch',
        format: (v) => formatPercent(v),
        formatTick: (v) => formatPercent(v, decimals),
        wholeX: true,
        least: 0,
        most: 1,
      }),
    );
  }
  if (rate.points.length > 0) {
    const series = [{ label: 'rate', points: rate.points, color: 6 }];
    charts.push(
      lineChart({
        title: 'Learning rate',
        series,
        xLabel: 'update',
        format: (v) => formatNumber(v, 2),
        wholeX: true,
        least: 0,
      }),
    );
  }
  return charts;
}

/** Training losses and the held-out loss; a single term that is the total is shown once. */
function lossCurves(curves: readonly Curve[]): Curve[] {
  const losses = curves.filter(({ name }) => !isShare(name) && !name.endsWith('/skipped') && isLoss(name));
  const terms = losses.filter(({ name }) => name.startsWith('train/') && name !== 'train/total');
  return losses.filter(({ name }) => !(name === 'train/total' && terms.length === 1)).slice(0, 6);
}

const isLoss = (name: string) => name.startsWith('train/') || name.endsWith('/loss');

const spanOf = (curves: readonly Curve[]) => {
  const values = curves.flatMap(({ points }) => points.map(([, y]) => y));
  return Math.max(...values) - Math.min(...values);
};

function seriesOf(curves: readonly Curve[]): LineSeries[] {
  const short = shortNames(
    curves.filter(({ name }) => name.startsWith('train/')).map(({ name }) => name.slice('train/'.length)),
  );
  return curves.map(({ name, points }, i) => ({
    label: short.get(name.replace(/^train\//, '')) ?? name.replaceAll('/', ' '),
    points,
    color: (i % 6) + 1,
  }));
}
