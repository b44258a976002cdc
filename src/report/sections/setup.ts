import { formatDuration, formatInteger, formatSetting } from '../../loggers/quantities.ts';
import type { GroupRow } from '../../plugin-host/contract.ts';
import { type Html, html } from '../html.ts';
import type { ReportData } from '../report-data.ts';

/** How the entries of the environment are titled. */
const NAMES: Readonly<Record<string, string>> = {
  alambic: 'alambic',
  command: 'Command',
  cores: 'Cores',
  cpu: 'Processor',
  device: 'Device',
  memoryGiB: 'Memory',
  mode: 'Engine mode',
  node: 'Node.js',
  platform: 'System',
  seed: 'Seed',
  tensorflow: 'TensorFlow',
};

/** What it takes to do the run again: groups, recipe, environment, warnings. */
export function setupSection({ result, history, recipe, warnings }: ReportData): Html {
  const facts: [string, string][] = Object.entries(result.environment).map(([name, value]) => [
    NAMES[name] ?? name,
    name === 'memoryGiB' ? `${value} GiB` : String(value),
  ]);
  if (result.startedAt !== undefined)
    facts.push(['Started', result.startedAt.replace('T', ' ').replace(/(\.\d+)?Z$/, ' UTC')]);
  facts.push(['Duration', formatDuration(result.seconds)]);
  return html`<section id="setup"><h2>Set-up</h2>
${warnings.length > 0 && html`<h3>Warnings</h3><ul class="warnings">${warnings.map(({ code, message }) => html`<li>${message} <small>${code}</small></li>`)}</ul>`}
<h3>Groups</h3>
<p class="intro">Which parameters trained, at what rate.</p>
${history.map(({ stage, phases }) =>
  phases.map((groups, i) => groupTable(phases.length > 1 ? `${stage}, phase ${i + 1}` : stage, groups)),
)}
<h3>Environment</h3>
<dl class="environment">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
<details class="recipe"><summary>Resolved recipe</summary><pre tabindex="0"><code>${recipe}</code></pre></details>
</section>`;
}

function groupTable(title: string, groups: readonly GroupRow[]): Html {
  return html`<div class="scroll"><table class="groups"><caption>${title}</caption>
<thead><tr><th scope="col">Group</th><th scope="col" class="number">Parameters</th><th scope="col">State</th><th scope="col" class="number">Rate</th><th scope="col" class="number">Decay</th><th scope="col">Mode</th></tr></thead>
<tbody>${groups.map(
    ({ group, parameters, trainable, rate, decay, mode }) =>
      html`<tr${!trainable && html` class="frozen"`}><th scope="row">${group}</th><td class="number">${formatInteger(parameters)}</td><td>${trainable ? 'trains' : 'frozen'}</td><td class="number">${trainable ? formatSetting(rate) : '–'}</td><td class="number">${trainable && decay > 0 ? formatSetting(decay) : '–'}</td><td>${mode}</td></tr>`,
  )}</tbody></table></div>`;
}
