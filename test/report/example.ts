import type { CalibrationBin, ReportData, Sample, StageResult } from '../../src/report/report-data.ts';
import { seededNumbers } from './generator.ts';

const CLASSES = 10;
const ITEMS = 2000;
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

interface Kind {
  readonly stage: string;
  readonly architecture: string;
  readonly accuracy: number;
  readonly parameters: number;
  readonly macs: number;
  readonly latencyMs: number;
  readonly labelledItems: number;
  readonly teachers: readonly string[];
}

/** A report like that of a real run, made from a seed: nothing in it is random. */
export function exampleReport(labels = Array.from({ length: CLASSES }, (_, i) => String(i)), png = PIXEL): ReportData {
  const random = seededNumbers(7);
  const kinds: Kind[] = [
    {
      stage: 'teacher',
      architecture: 'resnet20',
      accuracy: 0.976,
      parameters: 272_186,
      macs: 40_550_000,
      latencyMs: 1.42,
      labelledItems: 7000,
      teachers: [],
    },
    {
      stage: 'alone',
      architecture: 'resnet8',
      accuracy: 0.889,
      parameters: 77_754,
      macs: 12_300_000,
      latencyMs: 0.463,
      labelledItems: 200,
      teachers: [],
    },
    {
      stage: 'student',
      architecture: 'resnet8',
      accuracy: 0.951,
      parameters: 77_754,
      macs: 12_300_000,
      latencyMs: 0.458,
      labelledItems: 200,
      teachers: ['teacher'],
    },
  ];
  const difficulty = Array.from({ length: ITEMS }, random);
  const truths = difficulty.map((_, i) => i % labels.length);
  const stages = kinds.map((kind): StageResult => {
    const correct = difficulty.map((d) => (d * 0.97 + random() * 0.03 < kind.accuracy ? 1 : 0));
    const confusion = labels.map(() => labels.map(() => 0));
    truths.forEach((truth, i) => {
      const wrong = (truth + 1 + Math.floor(random() * random() * (labels.length - 1))) % labels.length;
      confusion[truth]![correct[i] === 1 ? truth : wrong]!++;
    });
    const top1 = correct.reduce((sum: number, hit) => sum + hit, 0) / ITEMS;
    const calibration: CalibrationBin[] = Array.from({ length: 10 }, (_, b) => ({
      confidence: (b + 0.5) / 10,
      accuracy: Math.max(0, Math.min(1, (b + 0.5) / 10 - 0.1 + random() * 0.12)),
      count: b < 2 ? 0 : Math.round(4 * 1.9 ** b),
    }));
    return {
      stage: kind.stage,
      model: kind.stage,
      architecture: kind.architecture,
      teachers: kind.teachers,
      metrics: { top1, top5: 0.995, loss: 0.9 * (1 - top1) + 0.06, ece: 0.021 + (1 - top1) / 4 },
      items: ITEMS,
      confusion,
      calibration,
      correct: correct.join(''),
      parameters: kind.parameters,
      macs: kind.macs,
      latencyMs: kind.latencyMs,
      bytes: kind.parameters * 4 + 9000,
      seconds: 40 + kind.parameters / 5000,
      epochs: kind.stage === 'teacher' ? 8 : 12,
      trainingItems: kind.stage === 'alone' ? 200 : 7000,
      labelledItems: kind.labelledItems,
    };
  });
  const samples = Array.from({ length: 18 }, (_, i): Sample => {
    const label = i % labels.length;
    const other = (label + 3) % labels.length;
    const right = { teacher: true, alone: i >= 12, student: i < 6 || i >= 12 };
    return {
      id: `digits/${label}/${String(i * 37).padStart(4, '0')}`,
      png,
      label,
      predictions: Object.entries(right).map(([stage, hit]) => {
        const confidence = 0.45 + random() * 0.54;
        return {
          stage,
          predicted: hit ? label : other,
          confidence,
          truth: hit ? confidence : (1 - confidence) * random(),
        };
      }),
    };
  });
  return {
    result: {
      name: 'digits-start',
      labels,
      split: 'test',
      stages,
      baseline: 'alone',
      samples,
      environment: {
        node: 'v20.20.2',
        tensorflow: '2.21.0',
        device: 'cpu',
        mode: 'graph',
        platform: 'linux 6.1',
        cpu: 'Example Processor 9000',
        cores: 2,
        memoryGiB: 24,
        seed: 1,
        command: 'alambic start --run runs/first',
      },
      startedAt: '2026-12-01T02:00:00.000Z',
      seconds: 312,
    },
    history: stages.map(({ stage, epochs }) => ({
      stage,
      epochs,
      epochCurves: curvesOf(stage, epochs, random),
      rate: { name: 'rate', points: rates(epochs * 110) },
      phases: [
        [
          { group: 'kernels', parameters: 76_496, trainable: true, rate: 0.1, decay: 5e-4, mode: 'train' as const },
          { group: 'norms and biases', parameters: 1258, trainable: true, rate: 0.1, decay: 0, mode: 'train' as const },
          ...(stage === 'student'
            ? [{ group: 'stem', parameters: 432, trainable: false, rate: 0, decay: 0, mode: 'infer' as const }]
            : []),
        ],
      ],
      ops: 1204,
    })),
    warnings: [{ code: 'DATA_SKIPPED', message: '2 images could not be read and were left out' }],
    recipe:
      'name: digits-start\nseed: 1\ndata:\n  source: { use: digits }\n  splits: { train: 0.7, dev: 0.1, test: 0.2 }\nmodels:\n  teacher: { use: resnet20 }\n',
  };
}

function curvesOf(stage: string, epochs: number, random: () => number) {
  const falling = (from: number, to: number) =>
    Array.from({ length: epochs }, (_, e): [number, number] => [
      e + 1,
      to + (from - to) * Math.exp(-e / 2.2) + random() * 0.02,
    ]);
  const rising = (from: number, to: number) =>
    Array.from({ length: epochs }, (_, e): [number, number] => [
      e + 1,
      to - (to - from) * Math.exp(-e / 1.8) + random() * 0.008,
    ]);
  return [
    { name: 'train/total', points: falling(2.4, 0.3) },
    { name: 'train/ce', points: falling(1.6, 0.12) },
    ...(stage === 'student' ? [{ name: 'train/distillation', points: falling(1.9, 0.2) }] : []),
    { name: 'train/skipped', points: falling(0, 0) },
    { name: 'dev/top1', points: rising(0.6, stage === 'alone' ? 0.88 : 0.95) },
    { name: 'dev/top5', points: rising(0.9, 0.99) },
    { name: 'dev/loss', points: falling(1.2, 0.35) },
  ];
}

function rates(updates: number): [number, number][] {
  return Array.from({ length: Math.floor(updates / 20) }, (_, i) => {
    const t = (i * 20) / updates;
    return [i * 20 + 20, t < 0.05 ? (t / 0.05) * 0.1 : 0.05 * (1 + Math.cos((Math.PI * (t - 0.05)) / 0.95))];
  });
}
