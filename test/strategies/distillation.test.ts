import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { engine } from '../../src/engine/engine.ts';
import { initialise } from '../../src/nn/describe.ts';
import { createHost } from '../../src/plugin-host/builtins.ts';
import type { Strategy, Transform } from '../../src/plugin-host/contract.ts';
import { definePlugin } from '../../src/plugin-host/define.ts';
import type { StageInput } from '../../src/train/stage-input.ts';
import { openTestEngine } from '../engine-setup.ts';
import {
  adamw,
  largestDifference,
  named,
  runStage,
  SmallNet,
  setUpStage,
  stageModel,
  supervised,
} from '../train/stage-setup.ts';

beforeAll(openTestEngine);

/** Mean squared difference of the logits, one number per item; says so where classes do not fit. */
class LogitDistance {
  call({ student, teacher }: { student: tf.Tensor; teacher?: tf.Tensor }): tf.Tensor {
    return tf.mean(tf.squaredDifference(student, teacher!), 1);
  }
}

const host = createHost();
host.register(
  definePlugin({
    name: 'logit-distance',
    kind: 'loss',
    apiVersion: 1,
    options: z.strictObject({}),
    implementation: LogitDistance,
  }),
  'the test',
);

const distillation = (options: Record<string, unknown> = {}): Strategy =>
  host.instantiate('strategy', 'distillation', options);

const teachers = (classes = 3): StageInput['teachers'] => {
  const model = stageModel('teacher', new SmallNet([8, 8, 1], classes, { width: 10 }));
  return { teacher: { ...model, state: initialise(model.description, 9), mode: 'infer' } };
};

test('a loss plugin between the logits takes the place of the KL', async () => {
  const strategies = [named('distillation', distillation({ loss: { use: 'logit-distance' }, weight: 0.5 }))];
  const { runner } = setUpStage({ teachers: teachers(), strategies });
  expect(runner.layout.terms).toEqual([{ name: 'distillation/kd', weight: 0.5, shape: [4] }]);
  const { history } = await runStage({ teachers: teachers(), strategies, optimizer: adamw(), epochs: 8 });
  const [first, last] = [history[0]!, history[7]!].map((metrics) => metrics['train/distillation/kd']!);
  expect(last!).toBeLessThan(first! / 3);
  expect(history[0]!['train/total']).toBeCloseTo(first! / 2, 6);
});

describe('what does not fit is said before anything is built', () => {
  test.each<[string, StageInput['teachers'], Record<string, unknown>, string, RegExp]>([
    ['no teacher', {}, {}, 'PRECONDITION', /needs one teacher, the stage has none/],
    [
      'a teacher of other classes',
      teachers(5),
      {},
      'PRECONDITION',
      /student small gives \[1,3\], teacher "teacher" \[1,5\]/,
    ],
    ['an unknown teacher', teachers(), { teacher: 'techer' }, 'UNKNOWN_TEACHER', /did you mean "teacher"/],
  ])('%s', (_, given, options, code, message) => {
    expect(() =>
      setUpStage({ teachers: given, strategies: [named('distillation', distillation(options))] }),
    ).toThrowError(expect.objectContaining({ code, message: expect.stringMatching(message) }));
  });
});

test('start and stop switch the loss on and off, over one recorded step', async () => {
  const { events } = await runStage({
    teachers: teachers(),
    strategies: [supervised(), named('distillation', distillation({ start: 0.4, stop: 0.7 }))],
    epochs: 2,
  });
  const steps = events.flatMap((event) => (event.type === 'step' ? [event.losses] : []));
  const counts = steps.map((losses) => Math.abs(losses['total']! - losses['supervised/ce']!) > 1e-7);
  // 12 updates: update i lies at i / 11 of the stage.
  expect(counts).toEqual(steps.map((_, i) => i / 11 >= 0.4 && i / 11 <= 0.7));
  expect(events.filter(({ type }) => type === 'recorded').length).toBe(1);
});

test('op by op, as a graph and compiled by XLA: the same first steps with a teacher and augmentation', async () => {
  const crop = host.instantiate('transform', 'random-crop', { padding: 2 }) as Transform;
  const runs = [];
  for (const mode of ['eager', 'graph', 'xla'] as const) {
    engine().mode = mode;
    try {
      runs.push(
        await runStage({
          teachers: teachers(),
          strategies: [supervised(), named('distillation', distillation())],
          preparation: { transforms: [crop], mean: [0.5], std: [0.25] },
          limitUpdates: 3,
        }),
      );
    } finally {
      engine().mode = 'graph';
    }
  }
  const [eager, graph, xla] = runs;
  for (const other of [graph!, xla!]) {
    // float32 sums in another order, through three steps of momentum.
    expect(largestDifference(eager!.tensors, other.tensors)).toBeLessThan(2e-5);
    expect(other.history[0]!['train/total']).toBeCloseTo(eager!.history[0]!['train/total']!, 5);
  }
});
