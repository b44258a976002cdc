import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { engine } from '../../src/engine/engine.ts';
import {
  randomNormal,
  randomUniform,
  sparseSoftmaxCrossEntropy,
  stopGradient,
} from '../../src/engine/kernels/index.ts';
import { deriveKey, type Key } from '../../src/engine/random.ts';
import { Dense } from '../../src/nn/layers/index.ts';
import type { Module, Scope, Tensors } from '../../src/nn/module.ts';
import type { StepView, Strategy } from '../../src/plugin-host/contract.ts';
import { openTestEngine } from '../engine-setup.ts';
import {
  adamw,
  largestDifference,
  named,
  type Overrides,
  runStage,
  setUpStage,
  valuesOf,
} from '../train/stage-setup.ts';

beforeAll(openTestEngine);

const WIDTH = 4;
const QUEUE = 16;

const unit = (x: tf.Tensor) => tf.div(x, tf.add(tf.norm(x, 'euclidean', 1, true), 1e-6));

/** Values that no gradient moves: a first-in first-out queue of keys. */
const queue: Module = {
  call(scope: Scope, x: tf.Tensor) {
    scope.buffer('keys', [QUEUE, WIDTH], (shape, key) => unit(randomNormal(key, shape)));
    return x;
  },
};

/** Momentum contrast (arXiv 1911.05722) in small: what the contract must carry for contrastive methods. */
class MomentumContrast implements Strategy {
  modules({ network, student, batchSize }: Parameters<NonNullable<Strategy['modules']>>[0]) {
    const head: Module = { call: (scope: Scope, x: tf.Tensor) => new Dense(WIDTH).call(scope.child('fc'), x) };
    const features = student.taps.find(({ name }) => name === 'features')!.shape;
    const inputShape = [batchSize, ...student.inputShape.slice(1)];
    return {
      projector: { module: head, inputShape: [batchSize, features[1]!] },
      // The same network once more, which follows the student.
      encoder: { module: network, inputShape, trainable: false, initial: 'student' as const },
      keyProjector: { module: head, inputShape: [batchSize, features[1]!], trainable: false },
      queue: { module: queue, inputShape: [1, WIDTH], trainable: false },
    };
  }

  #view(step: StepView, name: string): tf.Tensor {
    const key: Key = deriveKey(step.random(name), 'shift');
    return step.batch.normalise(tf.add(step.batch.raw, randomUniform(key, [step.batch.size, 1, 1, 1], -0.1, 0.1)));
  }

  #keys(step: StepView): tf.Tensor {
    const { tap } = step.forwardModule('encoder', this.#view(step, 'key'));
    return stopGradient(unit(step.module('keyProjector', tap('features'))));
  }

  terms(step: StepView) {
    const query = unit(step.module('projector', step.forward('student', this.#view(step, 'query')).tap('features')));
    const positive = tf.sum(tf.mul(query, this.#keys(step)), 1, true);
    const negative = tf.matMul(query as tf.Tensor2D, step.buffer('queue', 'keys') as tf.Tensor2D, false, true);
    const logits = tf.div(tf.concat([positive, negative], 1), 0.2);
    return { info: { loss: sparseSoftmaxCrossEntropy(logits, tf.zeros([step.batch.size], 'int32')) } };
  }

  update(step: Parameters<NonNullable<Strategy['update']>>[0]) {
    const follow = (values: Tensors, targets: Tensors, prefix: string) =>
      Object.fromEntries(
        Object.entries(targets)
          .filter(([name]) => step.values(prefix)[name] !== undefined)
          .map(([name, target]) => [`${prefix}.${name}`, tf.add(tf.mul(values[name]!, 0.9), tf.mul(target, 0.1))]),
      );
    const keys = tf.concat([this.#keys(step), step.buffer('queue', 'keys')], 0);
    return {
      ...follow(step.values('encoder'), step.params, 'encoder'),
      ...follow(step.values('keyProjector'), step.values('projector'), 'keyProjector'),
      'queue.keys': tf.slice(keys, [0, 0], [QUEUE, WIDTH]),
    };
  }
}

const contrast = (): Overrides => ({
  strategies: [named('moco', new MomentumContrast())],
  optimizer: adamw(),
  epochs: 3,
});

describe('the contract carries a momentum encoder, views of its own and a queue', () => {
  test('the encoder starts as the student, follows it, and no gradient reaches it', async () => {
    const { runner, trace, initial } = setUpStage({ ...contrast(), saveEvery: 1, limitUpdates: 3 });
    const { layout } = runner;
    expect(layout.terms).toEqual([{ name: 'moco/info', weight: 1, shape: [4] }]);
    expect(layout.plan.assignments.has('strategies.moco.encoder.conv1.weight')).toBe(false);
    expect(layout.plan.assignments.has('strategies.moco.projector.fc.weight')).toBe(true);
    const start = Object.fromEntries(
      Object.entries(initial.params).map(([name, tensor]) => [name, Array.from(tensor.dataSync())]),
    );
    await runner.run();
    // Recomputed from what was saved: encoder' = 0.9 encoder + 0.1 student'.
    let encoder = start['conv2.weight']!;
    for (const { tensors } of trace.saves) {
      const student = valuesOf(tensors, 'params/conv2.weight');
      expect(student).not.toEqual(start['conv2.weight']);
      encoder = encoder.map((value, i) => 0.9 * value + 0.1 * student[i]!);
      valuesOf(tensors, 'params/strategies.moco.encoder.conv2.weight').forEach((value, i) => {
        expect(value).toBeCloseTo(encoder[i]!, 6);
      });
      expect(Object.keys(tensors).some((path) => path.startsWith('slots/strategies.moco.encoder'))).toBe(false);
      expect(Object.keys(tensors).some((path) => path.startsWith('slots/strategies.moco.projector'))).toBe(true);
    }
  });

  test('the queue takes the newest keys in front and moves the old ones back', async () => {
    const { saves } = await runStage({ ...contrast(), saveEvery: 1, limitUpdates: 3 });
    const queues = saves.map(({ tensors }) => valuesOf(tensors, 'buffers/strategies.moco.queue.keys'));
    for (const [i, now] of queues.entries()) {
      for (let row = 0; row < QUEUE; row++)
        expect(Math.hypot(...now.slice(row * WIDTH, (row + 1) * WIDTH))).toBeCloseTo(1, 4);
      const before = queues[i - 1];
      if (before !== undefined) expect(now.slice(4 * WIDTH)).toEqual(before.slice(0, (QUEUE - 4) * WIDTH));
    }
  });

  test('it learns, resumes bit for bit, and the same numbers come op by op', async () => {
    const straight = await runStage({ ...contrast(), saveEvery: 1, epochs: 8 });
    const first = straight.history[0]!['train/moco/info']!;
    const last = straight.history[7]!['train/moco/info']!;
    expect(last).toBeLessThan(first);
    const middle = straight.saves[13]!;
    const resumed = await runStage({
      ...contrast(),
      epochs: 8,
      resume: { point: middle.point, tensors: middle.tensors },
    });
    expect(largestDifference(straight.tensors, resumed.tensors)).toBe(0);

    const graph = await runStage({ ...contrast(), limitUpdates: 3 });
    engine().mode = 'eager';
    const eager = await runStage({ ...contrast(), limitUpdates: 3 });
    engine().mode = 'graph';
    // AdamW's first steps have the size of the rate whatever the gradient's, so rounding is enlarged where it is near zero.
    expect(largestDifference(graph.tensors, eager.tensors)).toBeLessThan(1e-3);
    expect(graph.history[0]!['train/moco/info']).toBeCloseTo(eager.history[0]!['train/moco/info']!, 4);
  });

  test('what is handed on is the student alone', async () => {
    const { runner } = setUpStage({ ...contrast(), limitUpdates: 1 });
    const { state } = await runner.run();
    const own = [
      'bn1.bias',
      'bn1.weight',
      'bn2.bias',
      'bn2.weight',
      'conv1.weight',
      'conv2.weight',
      'fc.bias',
      'fc.weight',
    ];
    expect(Object.keys(state.params).sort()).toEqual(own);
  });

  test.each<[string, Partial<Strategy>, string, RegExp]>([
    [
      'names no state of its own',
      { update: () => ({ 'quue.keys': tf.zeros([QUEUE, WIDTH]) }) },
      'UNKNOWN_STATE',
      /did you mean "queue.keys"/,
    ],
    ['has another shape', { update: () => ({ 'queue.keys': tf.zeros([1, WIDTH]) }) }, 'SHAPE_MISMATCH', /queue.keys/],
  ])('an update that %s is an error', async (_, change, code, message) => {
    const base = new MomentumContrast();
    const strategy: Strategy = {
      modules: (build) => base.modules(build),
      terms: (step) => base.terms(step),
      ...change,
    };
    const { runner } = setUpStage({ strategies: [named('moco', strategy)] });
    await expect(runner.run()).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
  });
});
