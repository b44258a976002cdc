import type { GroupRow } from '../plugin-host/contract.ts';

/** Reliability of one interval of confidence. */
export interface CalibrationBin {
  /** Mean confidence of its items, 0..1. */
  readonly confidence: number;
  /** Share of its items that are right, 0..1. */
  readonly accuracy: number;
  readonly count: number;
}

/** What is known of a stage's model after the run: one row of the comparison. */
export interface StageResult {
  readonly stage: string;
  /** Name of the model in the recipe. */
  readonly model: string;
  readonly architecture: string;
  /** Names of the stages or models that taught it; empty for none. */
  readonly teachers: readonly string[];
  /** Metrics on the held-out split: `top1` (0..1), `top5`, `loss`, `ece`, … */
  readonly metrics: Readonly<Record<string, number>>;
  /** Held-out items behind the metrics. */
  readonly items: number;
  /** [true class][predicted class] counts. */
  readonly confusion: readonly (readonly number[])[];
  readonly calibration: readonly CalibrationBin[];
  /** `0` and `1` for each held-out item in the split's order: whether the largest logit is right. Lets two models be compared in pairs. */
  readonly correct?: string;
  readonly parameters: number;
  /** Multiply-accumulates of one image. */
  readonly macs: number;
  /** Median milliseconds of one image. */
  readonly latencyMs: number;
  /** Size of the weights file. */
  readonly bytes: number;
  readonly seconds: number;
  readonly epochs: number;
  /** Items that were trained on, and how many of them with their label. */
  readonly trainingItems?: number;
  readonly labelledItems?: number;
}

/** What one model said of a sample. */
export interface SamplePrediction {
  readonly stage: string;
  /** Index of the largest logit. */
  readonly predicted: number;
  /** Probability of it, 0..1. */
  readonly confidence: number;
  /** Probability of the true class, 0..1. */
  readonly truth: number;
}

/** A held-out image and what the models said of it. */
export interface Sample {
  /** Identity in the source. */
  readonly id: string;
  /** PNG, base64. */
  readonly png: string;
  readonly label: number;
  readonly predictions: readonly SamplePrediction[];
}

/** What a run came to, ready to be shown. */
export interface ReportResult {
  /** Name of the recipe. */
  readonly name: string;
  readonly description?: string | undefined;
  readonly labels: readonly string[];
  /** Name of the held-out split. */
  readonly split: string;
  /** Stages in the order of the table. */
  readonly stages: readonly StageResult[];
  /** Stage that the others are compared with. */
  readonly baseline?: string | undefined;
  readonly samples: readonly Sample[];
  /** Versions, machine, engine, seed, command: by name, in the order in which they are shown. */
  readonly environment: Readonly<Record<string, string | number>>;
  /** ISO 8601, where the log says it. */
  readonly startedAt?: string | undefined;
  readonly seconds: number;
}

/** A curve over epochs or updates. */
export interface Curve {
  /** `train/ce`, `dev/top1`, `rate`. */
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

/** What the log says of a stage. */
export interface StageHistory {
  readonly stage: string;
  readonly epochs: number;
  /** By epoch, from 1: `train/…` and `dev/…`. */
  readonly epochCurves: readonly Curve[];
  /** By update: the learning rate. */
  readonly rate: Curve;
  /** The groups of each phase. */
  readonly phases: readonly (readonly GroupRow[])[];
  readonly ops?: number;
}

/** Everything that the report shows. */
export interface ReportData {
  readonly result: ReportResult;
  readonly history: readonly StageHistory[];
  readonly warnings: readonly { readonly code: string; readonly message: string }[];
  /** Text of the resolved recipe. */
  readonly recipe: string;
}
