import { formatDuration } from '../loggers/quantities.ts';
import { reliabilityDiagram } from './charts/reliability.ts';
import { type ComparisonRow, compareStages, type Headline, headlineOf } from './comparison.ts';
import { Html, html } from './html.ts';
import type { ReportData } from './report-data.ts';
import { classTable } from './sections/class-table.ts';
import { comparisonTable } from './sections/comparison-table.ts';
import { confusionFigure } from './sections/confusion.ts';
import { headlineSection } from './sections/headline.ts';
import { samplesSection } from './sections/samples.ts';
import { setupSection } from './sections/setup.ts';
import { trainingSection } from './sections/training.ts';
import { STYLESHEET } from './stylesheet.ts';

/**
 * The report of a run as one HTML page that needs nothing else: style, charts and images are in it, there is no script and no request.
 * A pure function; every text from outside is escaped.
 *
 * @throws AlambicError REPORT_EMPTY, REPORT_METRIC.
 * @example
 * await writeFile(runPaths(folder).report, renderReport(await collectReport(folder)));
 */
export function renderReport(data: ReportData): string {
  const { result } = data;
  const rows = compareStages(result);
  const headline = headlineOf(rows);
  const colors = stageColors(rows, headline);
  const colorOf = (stage: string) => colors.get(stage) ?? 6;
  const links = [
    ['#models', 'Models'],
    ['#errors', 'Errors'],
    ['#calibration', 'Calibration'],
    ...(result.samples.length > 0 ? [['#samples', 'Samples']] : []),
    ['#training', 'Training'],
    ['#setup', 'Set-up'],
  ] as const;
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${result.name} – alambic report</title>
<style>${new Html(STYLESHEET)}</style>
</head>
<body>
<main>
<nav aria-label="Sections"><b>alambic</b>${links.map(([target, text]) => html`<a href="${target}">${text}</a>`)}</nav>
${headlineSection(data, rows, headline, colorOf)}
<section id="models"><h2>Models</h2>${comparisonTable(rows, colorOf)}</section>
${errorsSection(data, rows, headline)}
${calibrationSection(rows, colorOf)}
${result.samples.length > 0 && samplesSection(data, headline)}
${trainingSection(data)}
${setupSection(data)}
<footer>Made by alambic in ${formatDuration(result.seconds)}. Intervals are 95 % (Wilson); models that saw the same images are compared in pairs.</footer>
</main>
</body>
</html>
`;
  return page.text;
}

/** The student in the first colour, baseline and teacher in fixed ones, so that a model looks the same in every chart. */
function stageColors(
  rows: readonly ComparisonRow[],
  { row, baseline, teacher }: Headline,
): ReadonlyMap<string, number> {
  const colors = new Map([[row.result.stage, 1]]);
  if (baseline !== undefined) colors.set(baseline.result.stage, 2);
  if (teacher !== undefined) colors.set(teacher.result.stage, 3);
  let next = 4;
  for (const { result } of rows) {
    if (!colors.has(result.stage)) colors.set(result.stage, next <= 6 ? next++ : 6);
  }
  return colors;
}

function errorsSection({ result }: ReportData, rows: readonly ComparisonRow[], { row, baseline }: Headline): Html {
  const others = rows.filter((other) => other !== row);
  const table = classTable(row.result, baseline?.result, result.labels);
  return html`<section id="errors"><h2>Errors of ${row.result.stage}</h2>
${confusionFigure(row.result, result.labels)}
<h3>Classes</h3>
${result.labels.length > 30 ? html`<details><summary>Scores of all ${result.labels.length} classes</summary>${table}</details>` : table}
${others.map(
  ({ result: other }) =>
    html`<details><summary>Confusion matrix of ${other.stage}</summary>${confusionFigure(other, result.labels)}</details>`,
)}</section>`;
}

function calibrationSection(rows: readonly ComparisonRow[], colorOf: (stage: string) => number): Html {
  return html`<section id="calibration"><h2>Calibration</h2>
<p class="intro">On the diagonal a model is as often right as it says. Below it, it is too sure of itself. The area of a point is its share of the images.</p>
<div class="diagrams">${rows.map(({ result }) =>
    reliabilityDiagram(result.stage, result.calibration, result.metrics['ece'], colorOf(result.stage)),
  )}</div></section>`;
}
