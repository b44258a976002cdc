import { readFileSync } from 'node:fs';
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { capture } from '../../src/engine/capture.ts';
import { engine } from '../../src/engine/engine.ts';
import { sparseSoftmaxCrossEntropy, valueAndGradients } from '../../src/engine/kernels/index.ts';
import { applyModule, describeModule } from '../../src/nn/describe.ts';
import { toTorchLayout } from '../../src/nn/layout.ts';
import { createBackbone } from '../../src/nn/zoo.ts';
import { treeLeaves } from '../../src/tree.ts';
import { openTestEngine } from '../engine-setup.ts';
import { closedForm, closedFormState } from '../nn/closed-form.ts';
import { MODES, relativeError } from './modes.ts';

type Tensors = Record<string, tf.Tensor>;

// Made by test/fixtures/generate/resnet18_step.py: PyTorch in float64.
const expected = JSON.parse(
  readFileSync(new URL('../fixtures/engine/resnet18-step.json', import.meta.url), 'utf8'),
) as {
  size: [number, number, number, number];
  classes: number;
  images: string;
  rate: number;
  momentum: number;
  decay: number;
  steps: { loss: number; logits: number[]; gradientNorms: Record<string, number> }[];
  after: Record<string, [sum: number, norm: number]>;
};

/**
 * Float32 against float64 through 18 layers and 3 steps. PyTorch's own float32 is off by 3e-4 at most of a gradient's norm; no ReLU input
 * of this case is so near zero that rounding flips it, which alone would change gradients by a thousandth.
 */
const TOLERANCE = 5e-4;

const network = createBackbone('resnet18', {
  inputSize: [expected.size[1], expected.size[2], expected.size[3]],
  classes: expected.classes,
  options: { stem: 'cifar' },
});

type State = Readonly<Record<'params' | 'buffers' | 'velocity', Tensors>>;

type StepResult = { state: State; metrics: { loss: tf.Tensor; logits: tf.Tensor; norms: Tensors } };

/** One step of SGD with momentum and L2 decay, as the trainer records it: old state in, new state out. */
function step({ params, buffers, velocity }: State, x: tf.Tensor, labels: tf.Tensor): StepResult {
  const { loss, gradients, aux } = valueAndGradients(() => {
    const { output, updates } = applyModule(network, { params, buffers }, x, { mode: 'train' });
    return { loss: tf.mean(sparseSoftmaxCrossEntropy(output, labels)), aux: { output, updates } };
  }, params);
  const nextParams: Tensors = {};
  const nextVelocity: Tensors = {};
  const norms: Tensors = {};
  for (const [name, value] of Object.entries(params)) {
    const gradient = gradients[name]!;
    norms[name] = tf.norm(gradient);
    nextVelocity[name] = tf.addN([gradient, tf.mul(value, expected.decay), tf.mul(velocity[name]!, expected.momentum)]);
    nextParams[name] = tf.sub(value, tf.mul(nextVelocity[name]!, expected.rate));
  }
  return {
    state: { params: nextParams, buffers: { ...buffers, ...aux.updates }, velocity: nextVelocity },
    metrics: { loss, logits: tf.slice(aux.output, [0, 0], [1, expected.classes]), norms },
  };
}

const scalar = (tensor: tf.Tensor) => tensor.dataSync()[0]!;

beforeAll(openTestEngine);

describe('a ResNet-18 step', () => {
  const description = describeNetwork();

  for (const mode of MODES) {
    it(`equals PyTorch's over three steps in ${mode} mode, and leaves nothing behind`, async () => {
      const initial = closedFormState(description());
      let state: State = {
        ...initial,
        velocity: Object.fromEntries(Object.entries(initial.params).map(([name, w]) => [name, tf.zerosLike(w)])),
      };
      const size = expected.size.reduce((product, n) => product * n, 1);
      const x = tf.tensor(Float32Array.from(closedForm(expected.images, size)), expected.size);
      const labels = tf.tensor1d(
        Array.from({ length: expected.size[0] }, (_, i) => (i * 3) % expected.classes),
        'int32',
      );
      const run = capture('resnet18 step', step, { mode });
      engine().backend.getInputTensorIds([
        x,
        labels,
        ...Object.values(state).flatMap((part) => Object.values(part)),
      ] as tf.Tensor[]);
      const before = engine().tensorCount();

      for (const [i, wanted] of expected.steps.entries()) {
        const result = await run(state, x, labels);
        const { loss, logits, norms } = result.metrics;
        expect(Math.abs(scalar(loss) - wanted.loss), `loss of step ${i}`).toBeLessThan(TOLERANCE * wanted.loss);
        expect(relativeError(logits.dataSync(), wanted.logits), `logits of step ${i}`).toBeLessThan(TOLERANCE);
        const worst = Object.entries(wanted.gradientNorms).map(([name, norm]) => ({
          name,
          error: Math.abs(scalar(norms[name]!) / norm - 1),
        }));
        expect(Object.keys(norms).sort()).toEqual(Object.keys(wanted.gradientNorms).sort());
        expect(
          worst.filter(({ error }) => !(error < TOLERANCE)),
          `gradient norms of step ${i}`,
        ).toEqual([]);
        for (const tensor of treeLeaves<tf.Tensor>([result.metrics, state])) tensor.dispose();
        state = result.state;
      }

      const roles = new Map(description().parameters.map((spec) => [spec.name, spec]));
      for (const [name, tensor] of Object.entries({ ...state.params, ...state.buffers })) {
        const spec = roles.get(name);
        const raw = tensor.dataSync() as Float32Array;
        const values = spec === undefined ? raw : toTorchLayout(spec, raw).data;
        const [sum, norm] = expected.after[name]!;
        const found = values.reduce((total, v) => [total[0]! + v, total[1]! + v * v], [0, 0]);
        expect(Math.abs(Math.sqrt(found[1]!) / norm - 1), `norm of ${name}`).toBeLessThan(TOLERANCE);
        // A sum of both signs cancels: its error is measured against what a sum of these sizes comes to.
        expect(Math.abs(found[0]! - sum), `sum of ${name}`).toBeLessThan(
          TOLERANCE * norm * Math.sqrt(values.length) + 1e-5,
        );
      }
      expect(engine().tensorCount()).toBe(before);
      run.dispose();
      for (const tensor of treeLeaves<tf.Tensor>([state, x, labels])) tensor.dispose();
    });
  }
});

function describeNetwork() {
  let known: ReturnType<typeof describeModule> | undefined;
  return () => {
    known ??= describeModule(network);
    return known;
  };
}
