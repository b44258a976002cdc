import { formatPercent } from '../../loggers/quantities.ts';
import type { Headline } from '../comparison.ts';
import { type Html, html } from '../html.ts';
import type { ReportData, Sample } from '../report-data.ts';

/** Held-out images with what the models say of them, sorted into what was gained, what is still wrong and what is right. */
export function samplesSection({ result }: ReportData, { row, baseline }: Headline): Html {
  const student = row.result.stage;
  const right = (sample: Sample, stage: string | undefined) =>
    sample.predictions.find((prediction) => prediction.stage === stage)?.predicted === sample.label;
  const gained = (sample: Sample) =>
    right(sample, student) && baseline !== undefined && !right(sample, baseline.result.stage);
  const groups: [string, Sample[]][] = [
    [`Right with ${student}, wrong with ${baseline?.result.stage}`, result.samples.filter(gained)],
    [`Wrong with ${student}`, result.samples.filter((sample) => !right(sample, student))],
    [
      baseline === undefined ? 'Right' : 'Right with both',
      result.samples.filter((sample) => right(sample, student) && !gained(sample)),
    ],
  ];
  return html`<section id="samples"><h2>Samples</h2>
<p class="intro">Held-out images. Each bar is the probability that the model gives to the true class.</p>
${groups
  .filter(([, samples]) => samples.length > 0)
  .map(
    ([title, samples]) =>
      html`<h3>${title}</h3><ul class="samples">${samples.map((sample) => card(sample, result.labels))}</ul>`,
  )}</section>`;
}

function card({ id, png, label, predictions }: Sample, labels: readonly string[]): Html {
  const name = labels[label] ?? String(label);
  return html`<li><img src="data:image/png;base64,${png}" alt="${id}: ${name}" title="${id}" width="72" height="72"><div><p class="truth">${name}</p>
<dl>${predictions.map(({ stage, predicted, confidence, truth }) => {
    const right = predicted === label;
    const said = right
      ? formatPercent(truth, 0)
      : `${labels[predicted] ?? predicted} at ${formatPercent(confidence, 0)}`;
    return html`<div class="${right ? 'right' : 'wrong'}" title="${stage}: ${labels[predicted] ?? predicted} with ${formatPercent(confidence)}, true class ${formatPercent(truth)}"><dt>${stage}</dt><dd><span>${right ? '✓' : '✗'} ${said}</span><i class="meter"><i style="width:${(truth * 100).toFixed(0)}%"></i></i></dd></div>`;
  })}</dl></div></li>`;
}
