import { readFile } from 'node:fs/promises';
import { AlambicError } from '../errors.ts';
import { type LoggedEvent, readLog } from '../loggers/log-lines.ts';
import type { GroupRow } from '../plugin-host/contract.ts';
import { readRunSummary } from '../train/run.ts';
import { runPaths } from '../train/run-folder.ts';
import type { Curve, ReportData, StageHistory } from './report-data.ts';
import { resultOf, samplesOf } from './run-summary.ts';

/**
 * Collects what the report shows from a run folder: `result.json`, `run.jsonl`, `recipe.yaml`.
 *
 * @throws AlambicError RUN_RESULT, REPORT_NO_RECIPE, LOG_MISSING, LOG_DAMAGED.
 */
export async function collectReport(folder: string): Promise<ReportData> {
  const paths = runPaths(folder);
  const summary = await readRunSummary(folder);
  const events = await readLog(paths.log);
  let recipe: string;
  try {
    recipe = await readFile(paths.recipe, 'utf8');
  } catch (cause) {
    throw new AlambicError('REPORT_NO_RECIPE', 'expected the resolved recipe of the run here', {
      at: paths.recipe,
      hint: 'Name the folder of a run.',
      cause,
    });
  }
  const result = resultOf(summary);
  return {
    result: { ...result, samples: await samplesOf(summary), startedAt: events[0]?.time },
    history: historyOf(events),
    warnings: warningsIn(events),
    recipe,
  };
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
