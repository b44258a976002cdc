import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AlambicError } from '../errors.ts';
import { type LoggedEvent, readLog } from '../loggers/log-lines.ts';
import type { GroupRow } from '../plugin-host/contract.ts';
import { type Curve, RESULT_FILE, type ReportData, type ResultFile, type StageHistory } from './report-data.ts';

/**
 * Collects what the report shows from a run folder: `result.json`, `run.jsonl`, `recipe.yaml`.
 *
 * @throws AlambicError REPORT_NO_RESULT, REPORT_FORMAT, LOG_MISSING, LOG_DAMAGED.
 */
export async function collectReport(folder: string): Promise<ReportData> {
  const result = await readResult(join(folder, RESULT_FILE));
  const events = await readLog(join(folder, 'run.jsonl'));
  let recipe: string;
  try {
    recipe = await readFile(join(folder, 'recipe.yaml'), 'utf8');
  } catch (cause) {
    throw new AlambicError('REPORT_NO_RECIPE', 'expected the resolved recipe of the run here', {
      at: join(folder, 'recipe.yaml'),
      hint: 'Name the folder of a run.',
      cause,
    });
  }
  return { result, history: historyOf(events), warnings: warningsIn(events), recipe };
}

/** Reads a run's result. */
export async function readResult(path: string): Promise<ResultFile> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (cause) {
    throw new AlambicError('REPORT_NO_RESULT', 'expected the result of a finished run here', {
      at: path,
      hint: 'Finish the run first: `--resume` goes on with it.',
      cause,
    });
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new AlambicError('REPORT_FORMAT', 'expected JSON', { at: path, hint: 'Evaluate the run again.', cause });
  }
  const { format, version } = (value ?? {}) as Partial<ResultFile>;
  if (format !== 'alambic-result' || version !== 1) {
    throw new AlambicError('REPORT_FORMAT', `expected alambic-result version 1, got ${format} version ${version}`, {
      at: path,
      hint: 'The run was made by another version of alambic: evaluate it again.',
    });
  }
  return value as ResultFile;
}

interface Collected {
  stage: string;
  epochs: number;
  metrics: Map<number, Readonly<Record<string, number>>>;
  rate: [number, number][];
  phases: (readonly GroupRow[])[];
  ops: number | undefined;
}

/** Curves and groups of each stage. After a resume the same updates may stand in the log twice: the later ones count. */
export function historyOf(events: readonly LoggedEvent[]): StageHistory[] {
  const stages = new Map<string, Collected>();
  for (const event of events) {
    if (event.type === 'stage-start') {
      const known = stages.get(event.stage);
      stages.set(event.stage, {
        stage: event.stage,
        epochs: event.epochs,
        metrics: known?.metrics ?? new Map(),
        rate: known?.rate ?? [],
        phases: known === undefined || known.phases.length <= 1 ? [event.groups] : known.phases,
        ops: known?.ops,
      });
    }
    if (!('stage' in event)) continue;
    const stage = stages.get(event.stage);
    if (stage === undefined) continue;
    if (event.type === 'recorded') stage.ops = event.ops;
    if (event.type === 'phase') stage.phases[event.phase] = event.groups;
    if (event.type === 'epoch-end') stage.metrics.set(event.epoch + 1, event.metrics);
    if (event.type === 'step') {
      while (stage.rate.length > 0 && stage.rate.at(-1)![0] >= event.update) stage.rate.pop();
      stage.rate.push([event.update, event.rate]);
    }
  }
  return [...stages.values()].map(({ stage, epochs, metrics, rate, phases, ops }) => ({
    stage,
    epochs,
    epochCurves: curvesOf(metrics),
    rate: { name: 'rate', points: rate },
    phases: phases.filter((groups) => groups !== undefined),
    ...(ops === undefined ? {} : { ops }),
  }));
}

function curvesOf(metrics: ReadonlyMap<number, Readonly<Record<string, number>>>): Curve[] {
  const curves = new Map<string, [number, number][]>();
  for (const [epoch, values] of [...metrics].sort(([a], [b]) => a - b)) {
    for (const [name, value] of Object.entries(values)) {
      if (!Number.isFinite(value)) continue;
      const points = curves.get(name) ?? [];
      points.push([epoch, value]);
      curves.set(name, points);
    }
  }
  return [...curves].map(([name, points]) => ({ name, points }));
}

function warningsIn(events: readonly LoggedEvent[]): { code: string; message: string }[] {
  const seen = new Map<string, { code: string; message: string }>();
  for (const event of events) {
    if (event.type === 'warning')
      seen.set(`${event.code} ${event.message}`, { code: event.code, message: event.message });
  }
  return [...seen.values()];
}
