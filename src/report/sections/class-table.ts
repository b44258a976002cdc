import { formatInteger, formatPercent, formatPoints } from '../../loggers/quantities.ts';
import { type Html, html } from '../html.ts';
import type { StageResult } from '../report-data.ts';

export interface ClassScores {
  readonly items: number;
  readonly precision: number;
  readonly recall: number;
  readonly f1: number;
}

/** Precision, recall and F1 of each class from the confusion matrix; NaN where a class never came up. */
export function classScores(confusion: readonly (readonly number[])[]): ClassScores[] {
  return confusion.map((row, c) => {
    const items = row.reduce((sum, n) => sum + n, 0);
    const predicted = confusion.reduce((sum, other) => sum + (other[c] ?? 0), 0);
    const hits = row[c] ?? 0;
    return {
      items,
      precision: predicted === 0 ? Number.NaN : hits / predicted,
      recall: items === 0 ? Number.NaN : hits / items,
      f1: items + predicted === 0 ? Number.NaN : (2 * hits) / (items + predicted),
    };
  });
}

/** Scores of each class, beside the baseline's recall. */
export function classTable(model: StageResult, baseline: StageResult | undefined, labels: readonly string[]): Html {
  const scores = classScores(model.confusion);
  const others = baseline === undefined ? undefined : classScores(baseline.confusion);
  return html`<div class="scroll"><table><caption class="visually-hidden">Scores of ${model.stage} for each class</caption>
<thead><tr><th scope="col">Class</th><th scope="col" class="number">Images</th><th scope="col" class="number">Precision</th><th scope="col" class="number">Recall</th><th scope="col" class="number">F1</th>${
    others !== undefined &&
    html`<th scope="col" class="number">Recall of ${baseline!.stage}</th><th scope="col" class="number">Gain</th>`
  }</tr></thead>
<tbody>${scores.map(({ items, precision, recall, f1 }, c) => {
    const other = others?.[c]?.recall;
    return html`<tr><th scope="row">${labels[c] ?? c}</th><td class="number">${formatInteger(items)}</td><td class="number">${share(precision)}</td><td class="number">${share(recall)}</td><td class="number"><i class="meter"><i style="width:${Number.isFinite(f1) ? (f1 * 100).toFixed(0) : 0}%"></i></i>${share(f1)}</td>${
      other !== undefined &&
      html`<td class="number">${share(other)}</td><td class="number">${Number.isFinite(recall - other) ? formatPoints(recall - other) : '–'}</td>`
    }</tr>`;
  })}</tbody></table></div>`;
}

const share = (value: number) => (Number.isFinite(value) ? formatPercent(value) : '–');
