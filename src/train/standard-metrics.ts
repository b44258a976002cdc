import type { Metric } from '../plugin-host/contract.ts';
import type { PreparedRun } from './prepare.ts';

/** Metrics that every evaluation measures, whatever else the recipe asks for. */
const STANDARD = ['accuracy', 'loss', 'calibration'];

/** Fresh metrics for one evaluation: the standard ones, then the recipe's. */
export function standardMetrics({ host, scope, recipe }: PreparedRun): Metric[] {
  return [...STANDARD.map((use) => ({ use })), ...recipe.run.metrics].map((use) =>
    host.instantiateUse('metric', use, { parent: scope }),
  );
}
