import { beforeAll, expect, test } from 'vitest';
import { createLoader } from '../../src/data/loader.ts';
import { engine } from '../../src/engine/engine.ts';
import { Accuracy } from '../../src/metrics/accuracy.ts';
import { MeanLoss } from '../../src/metrics/mean-loss.ts';
import { initialise } from '../../src/nn/describe.ts';
import { Evaluator, measure } from '../../src/train/evaluate.ts';
import { fingerprint } from '../../src/train/fingerprint.ts';
import { openTestEngine } from '../engine-setup.ts';
import { SmallNet, stageModel, stripeSource } from './stage-setup.ts';

beforeAll(openTestEngine);

test('an evaluation does not depend on the batch size, moves nothing and leaves no tensor', async () => {
  const model = stageModel('net', new SmallNet([8, 8, 1], 3, { dropRate: 0.5 }));
  const state = initialise(model.description, 2);
  const source = stripeSource(37);
  const preparation = { transforms: [], mean: [0.5], std: [0.25] };
  const evaluator = new Evaluator('net', model.backbone, preparation, 3);
  const loaderOf = (batchSize: number) => createLoader({ source, inputSize: [8, 8, 1], batchSize });
  const before = fingerprint(state);
  const whole = await evaluator.outputs(state, loaderOf(37));
  const tensors = engine().tensorCount();
  expect(Array.from(whole.labels)).toEqual(source.items.map(({ label }) => label));
  expect(Array.from(whole.indices)).toEqual(source.items.map((_, i) => i));
  // Recomputed by hand: items count alike, whatever batch they came in.
  const losses = Array.from(whole.labels, (label, i) => {
    const row = Array.from(whole.logits.subarray(i * 3, i * 3 + 3));
    return Math.log(row.reduce((sum, value) => sum + Math.exp(value), 0)) - row[label]!;
  });
  const expected = losses.reduce((sum, value) => sum + value, 0) / 37;
  for (const size of [1, 4, 10, 36]) {
    const parts = await evaluator.outputs(state, loaderOf(size));
    const metrics = measure(parts, [new Accuracy(), new MeanLoss()]);
    expect(metrics['loss'], `batches of ${size}`).toBeCloseTo(expected, 5);
    expect(metrics['top1']).toBe(measure(whole, [new Accuracy()])['top1']);
    parts.logits.forEach((value, i) => {
      expect(Math.abs(value - whole.logits[i]!)).toBeLessThan(1e-5);
    });
  }
  expect(fingerprint(state)).toBe(before);
  expect(engine().tensorCount()).toBe(tensors);
  evaluator.dispose();
});

test('a network with another number of classes than the data is an error', async () => {
  const model = stageModel('net', new SmallNet([8, 8, 1], 5));
  const evaluator = new Evaluator('net', model.backbone, { transforms: [], mean: [0.5], std: [0.25] }, 3);
  const loader = createLoader({ source: stripeSource(4), inputSize: [8, 8, 1], batchSize: 4 });
  await expect(evaluator.outputs(initialise(model.description, 1), loader)).rejects.toMatchObject({
    code: 'MODEL_CLASSES',
    message: expect.stringContaining('[N,3]'),
  });
  evaluator.dispose();
});
