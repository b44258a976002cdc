import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Source } from '../data/source.ts';
import { Calibration } from '../metrics/calibration.ts';
import { confusionMatrix } from '../metrics/confusion-matrix.ts';
import type { GroupRow } from '../plugin-host/contract.ts';
import type { RecipeStage } from '../recipe/schema.ts';
import { measure, type Outputs, softmaxRows } from './evaluate.ts';
import type { Evaluation } from './evaluation.ts';
import { measureLatency } from './latency.ts';
import { saveModel } from './model-files.ts';
import { arraysOf, modelUse, type PreparedRun, type StagePlan } from './prepare.ts';
import type { SamplePrediction, StageSummary } from './run-result.ts';
import type { StageResult } from './stage-input.ts';

const SAMPLES = 24;

type Details = Pick<StageSummary, 'items' | 'confusion' | 'calibration' | 'samples' | 'outcomes'>;

export interface StageToSummarise {
  readonly prepared: PreparedRun;
  readonly evaluation: Evaluation;
  /** The run's. */
  readonly folder: string;
  readonly stage: RecipeStage;
  readonly plan: StagePlan;
  readonly result: Pick<StageResult, 'state' | 'history' | 'updates'>;
  readonly groups: readonly GroupRow[];
  /** Whether it is a dry run. */
  readonly limited: boolean;
}

/** Saves the model of a finished stage and measures it on the held-out split. */
export async function summariseStage(input: StageToSummarise): Promise<Omit<StageSummary, 'seconds'>> {
  const { prepared, evaluation, stage, plan, result, limited } = input;
  const { data, networkSize, recipe } = prepared;
  const { description, backbone } = plan.student;
  const modelFolder = join('models', stage.name);
  const target = join(input.folder, modelFolder);
  await saveModel(target, {
    description,
    arrays: arraysOf(result.state),
    labels: data.labels,
    preprocessing: data.preprocessing(networkSize),
    model: modelUse(recipe, stage.model),
  });
  const split = data.heldOut;
  let metrics: Record<string, number> = {};
  let details: Details = { items: 0, confusion: [], calibration: [], samples: [] };
  if (split !== undefined) {
    const outputs = await evaluation.outputs(plan.student.name, result.state, split);
    metrics = measure(outputs, evaluation.metrics());
    details = await detail(data.source, outputs);
  }
  return {
    stage: stage.name,
    model: stage.model,
    architecture: description.architecture,
    teachers: Object.values(plan.teachers).map(({ name }) => name),
    epochs: result.history.length,
    updates: result.updates,
    trainingItems: Math.round(plan.loader.size / (stage.data.repeat ?? 1)),
    labelledItems: data.labelledItems({ labelled: stage.data.labelled ?? recipe.data.labelled, use: stage.data.items }),
    split,
    metrics,
    ...details,
    parameters: description.parameterCount,
    macs: description.macs,
    latency: await measureLatency(backbone, result.state, limited ? 3 : 30),
    bytes: (await stat(join(target, 'model.safetensors'))).size,
    modelFolder,
    groups: input.groups,
    history: result.history,
  };
}

/** Confusion, calibration and a few sample predictions: half of them wrong ones, where there are. */
async function detail(source: Source, outputs: Outputs): Promise<Details> {
  const { classes, labels, logits } = outputs;
  const probabilities = softmaxRows(logits, classes);
  const predicted = Int32Array.from(labels, (_, i) => {
    let best = 0;
    for (let c = 1; c < classes; c++)
      if (probabilities[i * classes + c]! > probabilities[i * classes + best]!) best = c;
    return best;
  });
  const confidence = Float32Array.from(predicted, (c, i) => probabilities[i * classes + c]!);
  const correct = Array.from(predicted, (c, i) => c === labels[i]);
  // Spread over the split, which may be sorted by class.
  const spread = (list: readonly number[], count: number) =>
    list.length <= count ? list : Array.from({ length: count }, (_, k) => list[Math.floor((k * list.length) / count)]!);
  const wrong = spread(
    correct.flatMap((ok, i) => (ok ? [] : [i])),
    SAMPLES / 2,
  );
  const right = spread(
    correct.flatMap((ok, i) => (ok ? [i] : [])),
    SAMPLES - wrong.length,
  );
  const samples: SamplePrediction[] = [];
  for (const i of [...wrong, ...right]) {
    const index = outputs.indices[i]!;
    const { data, height, width, channels } = await source.read(index);
    samples.push({
      id: source.items[index]!.id,
      item: i,
      label: labels[i]!,
      predicted: predicted[i]!,
      probability: confidence[i]!,
      probabilities: Array.from(probabilities.subarray(i * classes, (i + 1) * classes)),
      image: { height, width, channels, base64: Buffer.from(data).toString('base64') },
    });
  }
  const calibration = new Calibration();
  calibration.update(outputs);
  const rounded = (value: number) => Math.round(value * 1e4) / 1e4;
  const outcomes = {
    correct: correct.map((right) => (right ? '1' : '0')).join(''),
    predicted: Array.from(predicted),
    confidence: Array.from(confidence, rounded),
    truth: Array.from(labels, (c, i) => (c < 0 ? 0 : rounded(probabilities[i * classes + c]!))),
  };
  return {
    items: labels.length,
    confusion: confusionMatrix(outputs),
    calibration: calibration.bins(),
    samples,
    outcomes,
  };
}
