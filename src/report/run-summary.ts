import type { RunSummary, SamplePrediction, StageSummary } from '../train/run-result.ts';
import { chooseSamples } from './choose-samples.ts';
import { encodePng } from './png.ts';
import type { ReportResult, Sample, StageResult } from './report-data.ts';

/** Most samples of a report. */
const SAMPLES = 18;

/** A run's result as the report and the table on the terminal show it, without images. */
export function resultOf(summary: RunSummary): ReportResult {
  const byName = new Map(summary.stages.map((stage) => [stage.stage, stage]));
  const order = summary.compare.flatMap((name) => byName.get(name) ?? []);
  const shown = (order.length > 0 ? order : summary.stages).filter(({ metrics }) => metrics['top1'] !== undefined);
  return {
    name: summary.name,
    description: summary.description,
    labels: summary.labels,
    split: shown.at(-1)?.split ?? 'test',
    stages: shown.map(stageOf),
    baseline: summary.baseline,
    samples: [],
    environment: summary.environment,
    seconds: summary.seconds,
  };
}

function stageOf(stage: StageSummary): StageResult {
  const { latency, outcomes, calibration, ...rest } = stage;
  return {
    ...rest,
    latencyMs: latency.median,
    calibration: calibration.map(({ confidence, accuracy, items }) => ({ confidence, accuracy, count: items })),
    ...(outcomes === undefined ? {} : { correct: outcomes.correct }),
  };
}

/**
 * Held-out images worth looking at, each with what every model says of it: what only the student gets right, its surest mistakes, and a
 * few that are right.
 */
export async function samplesOf(summary: RunSummary): Promise<Sample[]> {
  const { stages, compare, baseline, labels } = summary;
  const shown = compare.flatMap((name) => stages.find(({ stage }) => stage === name) ?? []);
  const student = shown.findLast(({ teachers }) => teachers.length > 0) ?? shown.at(-1);
  if (student === undefined) return [];
  const images = new Map<string, SamplePrediction>();
  for (const { samples } of [student, ...shown])
    for (const sample of samples) if (!images.has(sample.id)) images.set(sample.id, sample);
  const candidates = [...images.values()].filter(({ label }) => label >= 0 && label < labels.length);
  const verdicts = candidates.flatMap((sample, index) => {
    const own = saidOf(student, sample);
    const other = shown.find(({ stage }) => stage === baseline);
    const compared = other === undefined || other === student ? undefined : saidOf(other, sample);
    if (own === undefined) return [];
    return [
      {
        index,
        model: own.predicted === sample.label,
        truth: own.truth,
        ...(compared === undefined ? {} : { baseline: compared.predicted === sample.label }),
      },
    ];
  });
  return Promise.all(
    chooseSamples(verdicts, SAMPLES).map(async (index): Promise<Sample> => {
      const sample = candidates[index]!;
      const { base64, height, width, channels } = sample.image;
      return {
        id: sample.id,
        label: sample.label,
        png: await encodePng(Buffer.from(base64, 'base64'), [height, width, channels]),
        predictions: shown.flatMap((stage) => {
          const said = saidOf(stage, sample);
          return said === undefined ? [] : [{ stage: stage.stage, ...said }];
        }),
      };
    }),
  );
}

/** What a stage's model said of an image, where the result knows it. */
function saidOf(stage: StageSummary, { id, item, label }: SamplePrediction) {
  const own = stage.samples.find((sample) => sample.id === id);
  if (own !== undefined) {
    return { predicted: own.predicted, confidence: own.probability, truth: own.probabilities[label] ?? 0 };
  }
  const { outcomes } = stage;
  if (outcomes === undefined || item === undefined || outcomes.predicted[item] === undefined) return undefined;
  return { predicted: outcomes.predicted[item], confidence: outcomes.confidence[item]!, truth: outcomes.truth[item]! };
}
