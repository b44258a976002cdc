import type { ReliabilityBin } from '../metrics/calibration.ts';
import type { GroupRow } from '../plugin-host/contract.ts';
import type { Latency } from './latency.ts';

/** One held-out image and what a network says of it; small pixels travel in the result so that the report needs no data set. */
export interface SamplePrediction {
  readonly id: string;
  /** Position in the split, the index into every stage's `outcomes`. */
  readonly item?: number;
  /** Index of the true class; -1 where there is none. */
  readonly label: number;
  readonly predicted: number;
  /** Probability of the predicted class, 0..1. */
  readonly probability: number;
  /** Probabilities of all classes. */
  readonly probabilities: readonly number[];
  readonly image: {
    readonly height: number;
    readonly width: number;
    readonly channels: number;
    readonly base64: string;
  };
}

/** What a network said of every item of the held-out split, in its order: so that networks can be compared item by item. */
export interface Outcomes {
  /** `1` where the item is right, else `0`. */
  readonly correct: string;
  readonly predicted: readonly number[];
  /** Probability of the predicted class, 0..1, four decimals. */
  readonly confidence: readonly number[];
  /** Probability of the true class, 0..1, four decimals; 0 without a label. */
  readonly truth: readonly number[];
}

/** What came out of one stage. */
export interface StageSummary {
  readonly stage: string;
  readonly model: string;
  readonly architecture: string;
  readonly teachers: readonly string[];
  readonly epochs: number;
  readonly updates: number;
  /** Different images that were trained on, and how many of them with their label. */
  readonly trainingItems?: number;
  readonly labelledItems?: number;
  readonly seconds: number;
  /** Split of the final numbers, and its metrics. */
  readonly split: string | undefined;
  readonly metrics: Readonly<Record<string, number>>;
  /** Items in that split. */
  readonly items: number;
  /** Rows: true class; columns: predicted class. */
  readonly confusion: readonly (readonly number[])[];
  /** Bins of the reliability diagram, from low to high confidence. */
  readonly calibration: readonly ReliabilityBin[];
  readonly outcomes?: Outcomes;
  readonly parameters: number;
  readonly macs: number;
  readonly latency: Latency;
  /** Size of `model.safetensors`. */
  readonly bytes: number;
  /** Relative to the run folder. */
  readonly modelFolder: string;
  readonly groups: readonly GroupRow[];
  readonly samples: readonly SamplePrediction[];
  readonly history: readonly Readonly<Record<string, number>>[];
}

/** `result.json` of a run: complete when `finished`. */
export interface RunSummary {
  readonly format: 'alambic-result';
  readonly version: 1;
  readonly name: string;
  readonly description: string | undefined;
  readonly labels: readonly string[];
  readonly stages: readonly StageSummary[];
  readonly compare: readonly string[];
  readonly baseline: string | undefined;
  readonly finished: boolean;
  readonly seconds: number;
  readonly environment: Readonly<Record<string, string | number>>;
}
