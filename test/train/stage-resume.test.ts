import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { randomUniform } from '../../src/engine/kernels/index.ts';
import { deriveKey } from '../../src/engine/random.ts';
import type { TensorRecord } from '../../src/formats/safetensors.ts';
import { BatchNorm, Dense } from '../../src/nn/layers/index.ts';
import type { Scope } from '../../src/nn/module.ts';
import { Cosine } from '../../src/optim/schedules/cosine.ts';
import type { Schedule, Strategy, Transform } from '../../src/plugin-host/contract.ts';
import type { StagePoint } from '../../src/train/stage-input.ts';
import { openTestEngine } from '../engine-setup.ts';
import { adamw, named, type Overrides, runStage, SmallNet, setUpStage, sgd, supervised } from './stage-setup.ts';

beforeAll(openTestEngine);

/** Freezes all but the classifier for an epoch, BatchNorm included; then trains everything at a tenth below the head. */
const unfreezing: Strategy = {
  groups: (_, { phase }) => ({
    assign: ({ depthGroup }) =>
      depthGroup === 'fc' ? { group: 'head' } : { group: 'body', trainable: phase > 0, rate: 0.1 },
    modes: phase > 0 ? {} : { conv1: 'infer', bn1: 'infer', conv2: 'infer', bn2: 'infer' },
  }),
  advance: ({ position }) => (position.phase === 0 && position.epoch >= 1 ? 'next-phase' : 'stay'),
};

/** A random shift in brightness of each image. */
const jitter: Transform = {
  outputShape: (shape) => shape,
  call: (images, { key, training }) =>
    training ? tf.add(images, randomUniform(deriveKey(key, 'shift'), [images.shape[0]!, 1, 1, 1], -0.2, 0.2)) : images,
};

/** A projector of its own with BatchNorm, trained along. */
const projecting: Strategy = {
  modules: ({ batchSize }) => ({
    projector: {
      inputShape: [batchSize, 6],
      module: {
        call: (scope: Scope, x: tf.Tensor) =>
          new Dense(4).call(scope.child('fc'), new BatchNorm().call(scope.child('bn'), x)),
      },
    },
  }),
  terms: ({ student, module }) => ({
    size: { loss: tf.sum(tf.square(tf.sub(module('projector', student.tap('features')), 1)), 1), weight: 0.1 },
  }),
};

const everything = (): Overrides => ({
  net: new SmallNet([8, 8, 1], 3, { dropRate: 0.3 }),
  strategies: [supervised(), named('unfreezing', unfreezing), named('projecting', projecting)],
  optimizer: adamw({ decay: 0.05 }),
  schedule: new Cosine({ warmup: { updates: 3, start: 0.01 }, final: 0 } as never) as Schedule,
  preparation: { transforms: [jitter], mean: [0.5], std: [0.25] },
  accumulate: 2,
  epochs: 4,
  clip: { norm: 1 },
  ema: { decay: 0.9, warmup: true, evaluate: true },
});

/** A stage that is stopped after each of these updates and goes on from what it saved, in a runner of its own. */
async function runInPieces(overrides: () => Overrides, stops: readonly number[]) {
  let resume: { point: StagePoint; tensors: TensorRecord } | undefined;
  const epochEnds: unknown[] = [];
  for (const stop of [...stops, Number.POSITIVE_INFINITY]) {
    const abort = new AbortController();
    const piece = await runStage({
      ...overrides(),
      signal: abort.signal,
      resume,
      emit: (event) => {
        if (event.type === 'step' && event.update >= stop) abort.abort();
        if (event.type === 'epoch-end') epochEnds.push(event.metrics);
      },
    });
    const last = piece.saves[piece.saves.length - 1]!;
    // As a checkpoint's manifest does it.
    resume = { point: JSON.parse(JSON.stringify(last.point)) as StagePoint, tensors: last.tensors };
    if (!piece.interrupted) return { ...piece, epochEnds };
  }
  throw new Error('did not end');
}

const bytesOf = (tensors: TensorRecord) =>
  Object.fromEntries(
    Object.entries(tensors).map(([path, { dtype, shape, data }]) => [
      path,
      `${dtype} [${shape}] ${Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('hex')}`,
    ]),
  );

describe('stop and resume is the uninterrupted run, bit for bit', () => {
  test('across an unfreeze border, with EMA, accumulation, warm-up, augmentation, dropout, own modules', async () => {
    const straight = await runStage(everything());
    expect(straight.updates).toBe(4 * 3);
    expect(straight.events.some(({ type }) => type === 'phase')).toBe(true);
    // Within the frozen phase, at its end (an epoch has 3 updates), across it, at an epoch's end, right before the end.
    for (const stops of [[3], [2, 4, 5, 6, 9], [11]]) {
      const pieces = await runInPieces(everything, stops);
      expect(bytesOf(pieces.tensors), `stopped after ${stops}`).toEqual(bytesOf(straight.tensors));
      expect(pieces.history).toEqual(straight.history);
      expect(pieces.updates).toBe(straight.updates);
      expect(pieces.epochEnds).toEqual(straight.history);
    }
    // The run must depend on what is restored: another seed gives other values.
    const other = await runStage({ ...everything(), seed: 4 });
    expect(bytesOf(other.tensors)).not.toEqual(bytesOf(straight.tensors));
  });

  test('from each checkpoint that a run wrote by itself', async () => {
    const make = (): Overrides => ({ ...everything(), saveEvery: 1 });
    const straight = await runStage(make());
    expect(straight.saves.length).toBeGreaterThanOrEqual(12);
    for (const { point, tensors } of straight.saves.filter((_, i) => i % 4 === 1)) {
      const again = await runStage({ ...make(), resume: { point, tensors } });
      expect(bytesOf(again.tensors), `from update ${point.update}`).toEqual(bytesOf(straight.tensors));
      expect(again.history).toEqual(straight.history);
    }
  });

  test('SGD without momentum keeps nothing per parameter, and resumes', async () => {
    const make = (): Overrides => ({ optimizer: sgd({ momentum: 0 }) });
    const straight = await runStage(make());
    const pieces = await runInPieces(make, [2, 7]);
    expect(bytesOf(pieces.tensors)).toEqual(bytesOf(straight.tensors));
  });

  test('a stage that had ended gives its values again and trains nothing', async () => {
    const straight = await runStage(everything());
    const { point, tensors } = straight.saves[straight.saves.length - 1]!;
    const again = await runStage({ ...everything(), resume: { point, tensors } });
    expect(again.saves).toEqual([]);
    expect(again.updates).toBe(straight.updates);
    expect(again.history).toEqual(straight.history);
    expect(again.events.map(({ type }) => type)).toEqual(['stage-start', 'stage-end']);
  });

  test('the skips in a row and the best value so far go along', async () => {
    const values = [0.5, 0.6, 0.6, 0.6, 0.6, 0.6];
    const make = (evaluations: number[]): Overrides => ({
      epochs: 6,
      earlyStop: { monitor: 'dev/top1', mode: 'max', patience: 2, minDelta: 0 },
      evaluate: async () => ({ top1: evaluations.shift()! }),
    });
    const straight = await runStage(make([...values]));
    const left = [...values];
    const pieces = await runInPieces(() => make(left), [13, 15]);
    expect(straight.history.length).toBe(4);
    expect(pieces.history).toEqual(straight.history);
  });
});

describe('a checkpoint of something else is refused', () => {
  test.each<[string, Overrides, RegExp]>([
    ['optimizer', { optimizer: adamw() }, /lacks slots/],
    ['EMA', { ema: { decay: 0.9, warmup: false, evaluate: true } }, /lacks ema/],
    ['network', { net: new SmallNet([8, 8, 1], 3, { width: 8 }) }, /of another shape are .*conv2/],
    ['strategy with a module', { strategies: [supervised(), named('projecting', projecting)] }, /lacks .*projector/],
  ])('of another %s', async (_, change, message) => {
    const { saves } = await runStage();
    const { point, tensors } = saves[0]!;
    const { runner } = setUpStage({ ...change, resume: { point, tensors } });
    const before = tf.memory().numTensors;
    await expect(runner.run()).rejects.toMatchObject({
      code: 'CHECKPOINT_MISMATCH',
      message: expect.stringMatching(message),
    });
    expect(tf.memory().numTensors).toBe(before);
  });

  test('but the number of batches per update may change', async () => {
    const { saves } = await runStage({ accumulate: 2 });
    const { point, tensors } = saves[0]!;
    const one = await runStage({ accumulate: 1, resume: { point, tensors } });
    expect(one.interrupted).toBe(false);
    const back = await runStage({
      accumulate: 2,
      resume: { point: one.saves[0]!.point, tensors: one.saves[0]!.tensors },
    });
    expect(back.interrupted).toBe(false);
  });
});
