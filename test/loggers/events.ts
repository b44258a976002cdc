import type { GroupRow, RunEvent } from '../../src/plugin-host/contract.ts';

export const GROUPS: readonly GroupRow[] = [
  { group: 'stem', parameters: 432, trainable: false, rate: 0, decay: 0, mode: 'infer' },
  { group: 'head', parameters: 12_345, trainable: true, rate: 0.05, decay: 5e-4, mode: 'train' },
];

export const runStart = (resumed = false, folder = 'runs/x', stages = ['teacher', 'student']): RunEvent => ({
  type: 'run-start',
  folder,
  stages,
  resumed,
});

export const stageStart = (stage = 'teacher'): RunEvent => ({
  type: 'stage-start',
  stage,
  epochs: 4,
  updatesPerEpoch: 25,
  groups: GROUPS,
});

export const step = (
  update: number,
  losses: Record<string, number> = { total: 1.5, 'supervised/ce': 1, 'distillation/kd': 0.5 },
  more: Partial<Extract<RunEvent, { type: 'step' }>> = {},
): RunEvent => ({
  type: 'step',
  stage: 'teacher',
  epoch: Math.floor((update - 1) / 25),
  update,
  updates: 100,
  losses,
  rate: 0.05,
  itemsPerSecond: 1234,
  waiting: 0.03,
  memoryBytes: 412_000_000,
  skipped: 0,
  ...more,
});

export const evaluation = (epoch: number, top1: number): RunEvent => ({
  type: 'evaluation',
  stage: 'teacher',
  epoch,
  split: 'dev',
  metrics: { top1, loss: 0.3 },
});
