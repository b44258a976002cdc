import { formatInteger, formatPercent } from '../../loggers/quantities.ts';
import { type Html, html } from '../html.ts';
import type { StageResult } from '../report-data.ts';

/** Most classes for which cells hold their count, and for which a matrix is drawn at all. */
const WITH_COUNTS = 14;
const WITH_MATRIX = 50;

/** Confusion matrix as a heat map (a real table), with the most frequent mistakes beside it. */
export function confusionFigure({ stage, confusion }: StageResult, labels: readonly string[]): Html {
  const pairs = mistakes(confusion).slice(0, 8);
  const list = html`<div class="mistakes"><h4>Most frequent mistakes</h4>${
    pairs.length === 0
      ? html`<p>None.</p>`
      : html`<ol>${pairs.map(
          ({
            truth,
            predicted,
            count,
            share,
          }) => html`<li><b>${labels[truth] ?? truth}</b> taken for <b>${labels[predicted] ?? predicted}</b>
<small>${formatInteger(count)} times, ${formatPercent(share)} of its images</small></li>`,
        )}</ol>`
  }</div>`;
  return html`<div class="confusion">${confusion.length <= WITH_MATRIX && matrix(stage, confusion, labels)}${list}</div>`;
}

function matrix(stage: string, confusion: readonly (readonly number[])[], labels: readonly string[]): Html {
  const counts = confusion.length <= WITH_COUNTS;
  const worst = Math.max(
    ...confusion.flatMap((row, truth) => row.map((n, predicted) => (truth === predicted ? 0 : n / rowTotal(row)))),
  );
  return html`<table class="heat${counts ? '' : ' dense'}"><caption>${stage}: rows are the true class, columns what was predicted</caption>
<thead><tr><td></td>${labels.map((label) => html`<th scope="col" title="${label}"><span>${label}</span></th>`)}</tr></thead>
<tbody>${confusion.map((row, truth) => {
    const total = rowTotal(row);
    return html`<tr><th scope="row" title="${labels[truth]}"><span>${labels[truth]}</span></th>${row.map(
      (n, predicted) => {
        const share = n / total;
        const right = truth === predicted;
        // Mistakes are rare: their shade follows the worst one, by the square root, so that small ones are seen.
        const shade = right ? share : worst === 0 ? 0 : Math.sqrt(share / worst) * 0.75;
        const strong = shade > 0.6 ? ' strong' : '';
        return html`<td class="${right ? 'right' : 'wrong'}${strong}" style="--v:${(shade * 100).toFixed(0)}%" title="${labels[truth]} → ${labels[predicted]}: ${n}, ${formatPercent(share)}">${
          counts && (n > 0 || right) ? n : ''
        }</td>`;
      },
    )}</tr>`;
  })}</tbody></table>`;
}

const rowTotal = (row: readonly number[]) =>
  Math.max(
    1,
    row.reduce((sum, n) => sum + n, 0),
  );

/** Cells off the diagonal, the most frequent first. */
export function mistakes(confusion: readonly (readonly number[])[]) {
  return confusion
    .flatMap((row, truth) => row.map((count, predicted) => ({ truth, predicted, count, share: count / rowTotal(row) })))
    .filter(({ truth, predicted, count }) => truth !== predicted && count > 0)
    .sort((a, b) => b.count - a.count || b.share - a.share);
}
