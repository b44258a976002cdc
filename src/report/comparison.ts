import { AlambicError } from '../errors.ts';
import { type Interval, pairedDifference, unpairedDifference, wilsonInterval } from './interval.ts';
import type { ReportResult, StageResult } from './report-data.ts';

/** A stage's result beside the others. */
export interface ComparisonRow {
  readonly result: StageResult;
  readonly accuracy: number;
  readonly interval: Interval;
  /** Against the baseline; absent for the baseline itself. */
  readonly gain?: Interval & { readonly difference: number };
  /** How many times fewer parameters than its teacher has; absent without one. */
  readonly compression?: number;
  readonly role: 'teacher' | 'baseline' | 'student' | 'model';
}

/** The result in one line. */
export interface Headline {
  readonly row: ComparisonRow;
  readonly baseline?: ComparisonRow;
  readonly teacher?: ComparisonRow;
}

/** Rows of the comparison, in the result's order. */
export function compareStages(result: ReportResult): ComparisonRow[] {
  const baseline = result.stages.find(({ stage }) => stage === result.baseline);
  const taught = new Set(result.stages.flatMap(({ teachers }) => teachers));
  return result.stages.map((stage) => {
    const accuracy = accuracyOf(stage);
    const teacher = teacherOf(result, stage);
    return {
      result: stage,
      accuracy,
      interval: wilsonInterval(accuracy, stage.items),
      ...(baseline !== undefined && baseline !== stage ? { gain: gainOver(stage, baseline) } : {}),
      ...(teacher === undefined ? {} : { compression: teacher.parameters / stage.parameters }),
      role:
        stage === baseline
          ? 'baseline'
          : stage.teachers.length > 0
            ? 'student'
            : taught.has(stage.stage) || taught.has(stage.model)
              ? 'teacher'
              : 'model',
    };
  });
}

/** What the run is about: the last student against the baseline, else the last stage. */
export function headlineOf(rows: readonly ComparisonRow[]): Headline {
  const row = rows.findLast(({ role }) => role === 'student') ?? rows.at(-1);
  if (row === undefined) {
    throw new AlambicError('REPORT_EMPTY', 'expected at least one finished stage, the result holds none', {
      hint: 'Finish the run first: `--resume` goes on with it.',
    });
  }
  const baseline = rows.find(({ role }) => role === 'baseline');
  const teacher = rows.find(
    ({ role, result }) =>
      role === 'teacher' && (row.result.teachers.includes(result.stage) || row.result.teachers.includes(result.model)),
  );
  return {
    row,
    ...(baseline === undefined || baseline === row ? {} : { baseline }),
    ...(teacher === undefined ? {} : { teacher }),
  };
}

function accuracyOf({ stage, metrics }: StageResult): number {
  const { top1 } = metrics;
  if (top1 === undefined) {
    throw new AlambicError(
      'REPORT_METRIC',
      `expected the metric top1 of stage "${stage}", got ${Object.keys(metrics).join(', ')}`,
      {
        hint: 'Evaluate the run again: `alambic eval` on its folder.',
      },
    );
  }
  return top1;
}

function teacherOf(result: ReportResult, { teachers }: StageResult): StageResult | undefined {
  return result.stages.find(({ stage, model }) => teachers.includes(stage) || teachers.includes(model));
}

function gainOver(stage: StageResult, baseline: StageResult) {
  const { correct } = stage;
  if (correct !== undefined && baseline.correct !== undefined && correct.length === baseline.correct.length) {
    return pairedDifference(correct, baseline.correct);
  }
  return unpairedDifference(accuracyOf(stage), stage.items, accuracyOf(baseline), baseline.items);
}
