import type { RunEvent } from '../plugin-host/contract.ts';
import type { Colors } from './colors.ts';
import { groupTable } from './group-table.ts';
import type { Progress } from './progress.ts';
import { formatDuration, formatInteger, formatMetric, formatNumber, formatPercent, shortNames } from './quantities.ts';
import { clip } from './text-table.ts';

interface Look {
  readonly colors: Colors;
  readonly width: number;
}

/** Lines that stay on the terminal for an event, in the live view and in the plain one; most events leave none. */
export function linesOf(event: RunEvent, progress: Progress, { colors, width }: Look): string[] {
  switch (event.type) {
    case 'run-start':
      return [
        `${colors.bold(event.resumed ? 'Resumed run' : 'Run')} ${event.folder}`,
        colors.dim(`${event.stages.length} stage${event.stages.length === 1 ? '' : 's'}: ${event.stages.join(' → ')}`),
      ];
    case 'stage-start': {
      const number = progress.stages.indexOf(event.stage) + 1;
      const place = progress.stages.length > 1 && number > 0 ? colors.dim(` ${number}/${progress.stages.length}`) : '';
      const work = `${formatInteger(event.epochs)} epochs of ${formatInteger(event.updatesPerEpoch)} updates`;
      return [
        '',
        `${colors.bold(event.stage)}${place}  ${colors.dim(work)}`,
        ...groupTable(event.groups, colors, width),
      ];
    }
    case 'phase':
      return [`${colors.bold(event.stage)}  phase ${event.phase + 1}`, ...groupTable(event.groups, colors, width)];
    case 'stage-end': {
      const shown = resultText(event.metrics, '');
      const took = colors.dim(formatDuration(event.seconds));
      return [`${colors.green('✓')} ${[colors.bold(event.stage), ...(shown === '' ? [] : [shown]), took].join('  ')}`];
    }
    case 'warning':
      return [`${colors.yellow('warning')} ${event.message} ${colors.dim(`[${event.code}]`)}`];
    case 'interrupted':
      return [
        `${colors.yellow('interrupted')} by ${event.signal}; saved ${event.checkpoint}`,
        colors.dim(`go on with --run ${progress.folder} --resume`),
      ];
    case 'run-end':
      return progress.interrupted ? [] : [colors.dim(`done in ${formatDuration(event.seconds)}`)];
    case 'evaluation':
      // After its last epoch a stage is measured on the held-out split: the number that counts.
      return progress.stage === undefined ? [`  ${resultText(event.metrics, splitText(event.split))}`] : [];
    case 'recorded':
    case 'step':
    case 'epoch-end':
    case 'checkpoint':
      return [];
  }
}

/** `dev/teacher/big` is a teacher measured before its stage. */
function splitText(split: string): string {
  const teacher = /^([^/]+)\/teacher\/(.+)$/.exec(split);
  return teacher === null ? split : `teacher ${teacher[2]}: ${teacher[1]}`;
}

/** The metrics that say how good a stage came out: of the held-out split rather than of training, top1 and loss. */
function resultText(metrics: Readonly<Record<string, number>>, split: string): string {
  const prefix = ['test/', 'dev/'].find((start) => Object.keys(metrics).some((name) => name.startsWith(start))) ?? '';
  const names = ['top1', 'loss'].map((name) => `${prefix}${name}`).filter((name) => name in metrics);
  const list = names.length > 0 ? names : Object.keys(metrics).slice(0, 2);
  const values = list.map((name) => `${name.replace('/', ' ')} ${formatMetric(name, metrics[name]!)}`).join('  ');
  return split === '' ? values : `${split} ${values}`;
}

/** One line that says where a stage stands, for logs that are not redrawn. */
export function stepLine(progress: Progress, now: number): string {
  const { stage } = progress;
  if (stage === undefined) return '';
  const { total, ...terms } = stage.losses;
  const short = shortNames(Object.keys(terms));
  const values = Object.entries(terms).map(([name, value]): [string, number] => [short.get(name)!, value]);
  // A single term of weight 1 is the total itself.
  const shown =
    values.length === 1 && values[0]![1] === total
      ? values
      : Object.entries({ loss: total ?? Number.NaN }).concat(values);
  const losses = shown.map(([name, value]) => `${name} ${formatNumber(value)}`);
  const left = progress.secondsLeftOfStage(now);
  return [
    `[${clip(stage.name, 24)}]`,
    `epoch ${Math.min(stage.epoch + 1, stage.epochs)}/${stage.epochs}`,
    `update ${stage.update}/${stage.updates}`,
    ...losses,
    ...(stage.rate === undefined ? [] : [`rate ${formatMetric('rate', stage.rate)}`]),
    ...(stage.itemsPerSecond === undefined ? [] : [`${Math.round(stage.itemsPerSecond)} items/s`]),
    `waiting ${formatPercent(stage.waiting, 0)}`,
    ...(stage.skipped > 0 ? [`skipped ${stage.skipped}`] : []),
    ...(left === undefined ? [] : [`${formatDuration(left)} left`]),
  ].join('  ');
}

/** One line with an epoch's evaluation. */
export function evaluationLine(event: Extract<RunEvent, { type: 'evaluation' }>): string {
  const metrics = Object.entries(event.metrics).map(([name, value]) => `${name} ${formatMetric(name, value)}`);
  return [`[${clip(event.stage, 24)}]`, `epoch ${event.epoch + 1}`, event.split, ...metrics].join('  ');
}
