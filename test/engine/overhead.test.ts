import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { capture } from '../../src/engine/capture.ts';
import { engine } from '../../src/engine/engine.ts';
import { sparseSoftmaxCrossEntropy, valueAndGradients } from '../../src/engine/kernels/index.ts';
import { applyModule, describeModule } from '../../src/nn/describe.ts';
import { createBackbone } from '../../src/nn/zoo.ts';
import { openTestEngine } from '../engine-setup.ts';

type Tensors = Record<string, tf.Tensor>;

beforeAll(openTestEngine);

describe('what the engine costs besides TensorFlow', () => {
  it('recording ResNet-50 with gradients and SGD takes under 3 s', () => {
    const network = createBackbone('resnet50', { inputSize: [64, 64, 3], classes: 1000 });
    const { parameters, buffers } = describeModule(network);
    const zeros = (specs: readonly { name: string; shape: readonly number[] }[]): Tensors =>
      Object.fromEntries(specs.map(({ name, shape }) => [name, tf.fill([...shape], 0)]));
    const step = capture(
      'resnet50',
      (state: { params: Tensors; buffers: Tensors; velocity: Tensors }, x: tf.Tensor, labels: tf.Tensor) => {
        const { loss, gradients, aux } = valueAndGradients(() => {
          const { output, updates } = applyModule(network, state, x, { mode: 'train' });
          return { loss: tf.mean(sparseSoftmaxCrossEntropy(output, labels)), aux: { ...updates } };
        }, state.params);
        const velocity: Tensors = {};
        const params: Tensors = {};
        for (const [name, value] of Object.entries(state.params)) {
          velocity[name] = tf.add(gradients[name]!, tf.mul(state.velocity[name]!, 0.9));
          params[name] = tf.sub(value, tf.mul(velocity[name]!, 0.1));
        }
        return { params, buffers: aux, velocity, loss } as Record<string, Tensors | tf.Tensor>;
      },
      { mode: 'graph' },
    );
    const state = { params: zeros(parameters), buffers: zeros(buffers), velocity: zeros(parameters) };
    const info = step.record(state, tf.zeros([2, 64, 64, 3]), tf.zeros([2], 'int32'));
    // Half a second on two busy cores.
    expect(info.milliseconds).toBeLessThan(3000);
    expect(info.ops).toBeLessThan(info.recordedOps);
    tf.dispose(state as never);
    step.dispose();
  });

  it('a step of 320 leaves spends under 2 ms in JavaScript', async () => {
    let state: Tensors = Object.fromEntries(
      Array.from({ length: 320 }, (_, i) => [`layer${i % 4}.${i % 7}.conv${i}.weight`, tf.fill([4, 4], i)]),
    );
    const step = capture(
      'trivial',
      (given: Tensors) => Object.fromEntries(Object.entries(given).map(([name, leaf]) => [name, tf.add(leaf, 1)])),
      { mode: 'graph' },
    );
    // The run's own time is taken out: what is left before and after it is JavaScript.
    const { binding } = engine();
    const runFunction = binding.runFunction.bind(binding);
    let inside = 0;
    binding.runFunction = async (...args) => {
      const { execute } = binding.library;
      const asynchronous = execute.async;
      execute.async = (...given: unknown[]) => {
        const done = given.pop() as (error: unknown) => void;
        const started = performance.now();
        asynchronous(...given, (error: unknown) => {
          inside += performance.now() - started;
          done(error);
        });
      };
      try {
        return await runFunction(...args);
      } finally {
        execute.async = asynchronous;
      }
    };
    try {
      const times: number[] = [];
      for (let i = 0; i < 120; i++) {
        inside = 0;
        const started = performance.now();
        const next = await step(state);
        for (const leaf of Object.values(state)) leaf.dispose();
        times.push(performance.now() - started - inside);
        state = next as Tensors;
      }
      // The median of the settled half: the compiler of V8 is warm, and a busy machine disturbs single steps.
      const settled = times.slice(60).sort((a, b) => a - b);
      expect(inside).toBeGreaterThan(0);
      expect(settled[30]).toBeLessThan(2);
    } finally {
      binding.runFunction = runFunction;
      for (const leaf of Object.values(state)) leaf.dispose();
      step.dispose();
    }
  });
});
