import {
  formatBytes,
  formatCount,
  formatInteger,
  formatNumber,
  formatPercent,
  formatPoints,
} from '../../loggers/quantities.ts';
import type { ComparisonRow } from '../comparison.ts';
import { type Html, html } from '../html.ts';
import { formatMilliseconds } from '../terminal-summary.ts';

interface Cell {
  readonly title: string;
  readonly value: (row: ComparisonRow) => Html | string;
  /** Leaves the column out where no row has anything to say. */
  readonly present?: (row: ComparisonRow) => boolean;
}

const CELLS: readonly Cell[] = [
  {
    title: 'Held-out accuracy',
    value: ({ accuracy, interval }) =>
      html`<strong>${formatPercent(accuracy)}</strong> <small>${percentNumber(interval.low)} – ${percentNumber(interval.high)}</small>`,
  },
  {
    title: 'Gain',
    value: ({ gain }) =>
      gain === undefined
        ? '–'
        : html`${formatPoints(gain.difference)} <small>${formatPoints(gain.low)} … ${formatPoints(gain.high)}</small>`,
    present: ({ gain }) => gain !== undefined,
  },
  {
    title: 'Loss',
    value: ({ result }) => formatNumber(result.metrics['loss'] ?? Number.NaN, 3),
    present: ({ result }) => result.metrics['loss'] !== undefined,
  },
  { title: 'Parameters', value: ({ result }) => formatCount(result.parameters) },
  { title: 'MACs', value: ({ result }) => formatCount(result.macs) },
  { title: 'Latency', value: ({ result }) => formatMilliseconds(result.latencyMs) },
  { title: 'File', value: ({ result }) => formatBytes(result.bytes) },
  {
    title: 'Size of teacher',
    value: ({ compression }) => (compression === undefined ? '–' : `1 : ${compression.toFixed(1)}`),
    present: ({ compression }) => compression !== undefined,
  },
  {
    title: 'Trained on',
    value: ({ result }) => trainedOn(result.trainingItems, result.labelledItems),
    present: ({ result }) => result.trainingItems !== undefined,
  },
];

/** All models beside each other; on a narrow screen each row becomes a card. */
export function comparisonTable(rows: readonly ComparisonRow[], colorOf: (stage: string) => number): Html {
  const cells = CELLS.filter(({ present }) => present === undefined || rows.some(present));
  return html`<table class="cards"><caption class="visually-hidden">Models compared on the held-out split</caption>
<thead><tr><th scope="col">Model</th>${cells.map(({ title }) => html`<th scope="col" class="number">${title}</th>`)}</tr></thead>
<tbody>${rows.map(
    (row) =>
      html`<tr><th scope="row"><i class="key s${colorOf(row.result.stage)}"></i>${row.result.stage}<small>${row.result.architecture}${
        row.role === 'model' ? '' : ` · ${row.role}`
      }</small></th>${cells.map(({ title, value }) => html`<td class="number" data-label="${title}"><span>${value(row)}</span></td>`)}</tr>`,
  )}</tbody></table>`;
}

function percentNumber(share: number): string {
  return (share * 100).toFixed(1);
}

function trainedOn(items: number | undefined, labelled: number | undefined): Html | string {
  if (items === undefined) return '–';
  if (labelled === undefined || labelled === items) return formatInteger(items);
  return html`${formatInteger(items)} <small>${formatInteger(labelled)} with label</small>`;
}
