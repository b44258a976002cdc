import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { capture } from '../../src/engine/capture.ts';
import { makeKey } from '../../src/engine/random.ts';
import { applyModule, describeModule, initialise } from '../../src/nn/describe.ts';
import {
  ACTIVATIONS,
  Activation,
  AveragePool,
  BatchNorm,
  Conv,
  Dense,
  DepthwiseConv,
  Dropout,
  Flatten,
  GlobalPool,
  MaxPool,
  Sequential,
} from '../../src/nn/layers/index.ts';
import type { Mode, ModelState, Module, Tensors } from '../../src/nn/module.ts';
import { createBackbone } from '../../src/nn/zoo.ts';
import { openTestEngine } from '../engine-setup.ts';

beforeAll(openTestEngine);
beforeEach(() => tf.engine().startScope());
afterEach(() => tf.engine().endScope());

const noState: ModelState = { params: {}, buffers: {} };
const key = makeKey(1, 'test');

function run(module: Module, x: Tensor, mode: Mode = 'infer', state?: ModelState) {
  return applyModule(module, state ?? initialise(describeModule(module, x.shape), 1), x, { mode, key });
}

describe('BatchNorm', () => {
  // [5,1,2,3]: ten values per channel.
  const x = () => tf.reshape(tf.tensor1d(Array.from({ length: 30 }, (_, i) => ((i * 7) % 11) - 3)), [5, 1, 2, 3]);
  const state = (): ModelState => ({
    params: { weight: tf.tensor1d([1, 2, 3]), bias: tf.tensor1d([0.5, 0, -1]) },
    buffers: { running_mean: tf.tensor1d([1, 0, -1]), running_var: tf.tensor1d([4, 1, 0.25]) },
  });

  /** Mean and biased variance of each channel, in float64. */
  function statistics() {
    const data = x().dataSync();
    return [0, 1, 2].map((channel) => {
      const column = Array.from(data).filter((_, i) => i % 3 === channel);
      const mean = column.reduce((sum, value) => sum + value, 0) / 10;
      return { mean, variance: column.reduce((sum, value) => sum + (value - mean) ** 2, 0) / 10 };
    });
  }

  function expected(use: readonly { mean: number; variance: number }[]) {
    return Array.from(x().dataSync(), (value, i) => {
      const { mean, variance } = use[i % 3]!;
      return ((value - mean) / Math.sqrt(variance + 1e-5)) * [1, 2, 3][i % 3]! + [0.5, 0, -1][i % 3]!;
    });
  }

  const close = (actual: Tensor, wanted: readonly number[]) => {
    const values = actual.dataSync();
    wanted.forEach((value, i) => {
      expect(values[i]).toBeCloseTo(value, 4);
    });
  };

  it('uses the running statistics in mode infer', () => {
    const { output, updates } = run(new BatchNorm(), x(), 'infer', state());
    close(
      output,
      expected([
        { mean: 1, variance: 4 },
        { mean: 0, variance: 1 },
        { mean: -1, variance: 0.25 },
      ]),
    );
    expect(updates).toEqual({});
  });

  it('uses the batch’s in mode train and moves the running ones by torch’s momentum, unbiased', () => {
    const { output, updates } = run(new BatchNorm(), x(), 'train', state());
    close(output, expected(statistics()));
    close(
      updates['running_mean']!,
      statistics().map(({ mean }, i) => 0.9 * [1, 0, -1][i]! + 0.1 * mean),
    );
    close(
      updates['running_var']!,
      statistics().map(({ variance }, i) => 0.9 * [4, 1, 0.25][i]! + (0.1 * variance * 10) / 9),
    );
  });

  it('uses the batch’s in mode batch-stats and moves nothing', () => {
    const { output, updates } = run(new BatchNorm(), x(), 'batch-stats', state());
    close(output, expected(statistics()));
    expect(updates).toEqual({});
  });

  it('takes epsilon, momentum and features [N,C]', () => {
    const flat = tf.reshape(x(), [10, 3]);
    const { updates } = run(new BatchNorm({ momentum: 1 }), flat, 'train', state());
    close(
      updates['running_mean']!,
      statistics().map(({ mean }) => mean),
    );
    const { output } = run(new BatchNorm({ epsilon: 3 }), tf.ones([1, 3]), 'infer', {
      params: { weight: tf.ones([3]), bias: tf.zeros([3]) },
      buffers: { running_mean: tf.zeros([3]), running_var: tf.ones([3]) },
    });
    close(output, [0.5, 0.5, 0.5]);
  });

  it('refuses the statistics of a single value', () => {
    const bn = new Sequential({ bn1: new BatchNorm() });
    const single = tf.ones([1, 1, 1, 3]);
    expect(() => run(bn, single, 'train')).toThrow(expect.objectContaining({ code: 'BATCH_TOO_SMALL' }));
    expect(() => run(bn, single, 'batch-stats')).toThrow(/bn1/);
    expect(() => run(bn, single, 'infer')).not.toThrow();
  });
});

describe('a frozen sub-tree', () => {
  it('keeps its buffers bit for bit over recorded training steps, while the rest moves', async () => {
    const backbone = createBackbone('resnet8', { inputSize: [16, 16, 3], classes: 4 });
    const { params, buffers } = initialise(describeModule(backbone), 3);
    const modes: Record<string, Mode> = { bn1: 'infer', layer1: 'infer', 'layer2.0.bn1': 'batch-stats' };
    const step = capture('frozen', (p: Tensors, b: Tensors, x: Tensor) => {
      const { updates } = applyModule(backbone, { params: p, buffers: b }, x, { mode: 'train', modes, key });
      return { ...b, ...updates };
    });
    let now: Tensors = buffers;
    for (let i = 0; i < 3; i++)
      now = (await step(params, now, tf.randomNormal([4, 16, 16, 3], 2, 3, 'float32', i))) as Tensors;
    const frozen = /^(bn1|layer1\.|layer2\.0\.bn1)/;
    for (const [name, value] of Object.entries(buffers)) {
      const same = Buffer.from(value.dataSync().buffer).equals(Buffer.from(now[name]!.dataSync().buffer));
      expect(same, name).toBe(frozen.test(name));
    }
    step.dispose();
  });
});

describe('Conv', () => {
  it('declares its kernel and, on demand, a bias', () => {
    const names = (module: Module) =>
      describeModule(module, [1, 6, 6, 3]).parameters.map(({ name, shape, role }) => [name, shape, role]);
    expect(names(new Conv(4, { kernel: [3, 1] }))).toEqual([['weight', [3, 1, 3, 4], 'kernel']]);
    expect(names(new DepthwiseConv({ kernel: 5, bias: true }))).toEqual([
      ['weight', [5, 5, 3, 1], 'depthwise-kernel'],
      ['bias', [3], 'bias'],
    ]);
  });

  it('adds the bias and pads as torch does', () => {
    const conv = new Conv(1, { kernel: 3, stride: 2, padding: 1, bias: true });
    const state = { params: { weight: tf.ones([3, 3, 1, 1]), bias: tf.tensor1d([10]) }, buffers: {} };
    const { output } = run(conv, tf.ones([1, 4, 4, 1]), 'infer', state);
    // Symmetric padding: the first window sees 2x2 pixels, TensorFlow's `same` would see 3x3.
    expect(output.arraySync()).toEqual([
      [
        [[14], [16]],
        [[16], [19]],
      ],
    ]);
  });

  it('refuses what is no batch of images, and says where', () => {
    const network = new Sequential({ conv1: new Conv(1, { kernel: 3 }) });
    expect(() => describeModule(network, [4, 6])).toThrow(/conv1: expected images \[N,H,W,C\], got \[4,6\]/);
  });
});

describe('Dense', () => {
  it('multiplies and adds', () => {
    const state = {
      params: {
        weight: tf.tensor2d([
          [1, 2],
          [3, 4],
        ]),
        bias: tf.tensor1d([10, 20]),
      },
      buffers: {},
    };
    expect(run(new Dense(2), tf.tensor2d([[1, 1]]), 'infer', state).output.arraySync()).toEqual([[14, 26]]);
    expect(describeModule(new Dense(2, { bias: false }), [1, 2]).parameters.map(({ name }) => name)).toEqual([
      'weight',
    ]);
  });

  it('refuses images', () => {
    expect(() => describeModule(new Dense(2), [1, 4, 4, 2])).toThrow(expect.objectContaining({ code: 'LAYER_INPUT' }));
  });
});

describe('Activation', () => {
  const xs = [-4, -2.5, -0.5, 0, 0.3, 1, 2.9, 7];
  const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
  // Abramowitz and Stegun's 7.1.5, the series of erf.
  const erf = (x: number) => {
    let term = x;
    let sum = x;
    for (let n = 1; n < 200; n++) {
      term *= (-x * x) / n;
      sum += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  };
  const formulas: Record<string, (x: number) => number> = {
    relu: (x) => Math.max(x, 0),
    relu6: (x) => Math.min(Math.max(x, 0), 6),
    silu: (x) => x * sigmoid(x),
    gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
    hardswish: (x) => (x * Math.min(Math.max(x + 3, 0), 6)) / 6,
    tanh: Math.tanh,
    sigmoid,
    identity: (x) => x,
  };

  it.each(ACTIVATIONS)('%s is its formula', (name) => {
    const values = run(new Activation(name), tf.tensor1d(xs), 'infer', noState).output.dataSync();
    xs.forEach((x, i) => {
      expect(values[i]).toBeCloseTo(formulas[name]!(x), 5);
    });
  });
});

describe('pools', () => {
  const image = () => tf.reshape(tf.range(1, 17), [1, 4, 4, 1]);
  const values = (module: Module, x = image()) => [...run(module, x, 'infer', noState).output.dataSync()];

  it('take the largest, the mean, and the mean of all', () => {
    expect(values(new MaxPool({ size: 2 }))).toEqual([6, 8, 14, 16]);
    expect(values(new AveragePool({ size: 2 }))).toEqual([3.5, 5.5, 11.5, 13.5]);
    expect(values(new GlobalPool())).toEqual([8.5]);
    expect(values(new MaxPool({ size: 3, stride: 2, padding: 1 }), tf.neg(image()))).toEqual([-1, -2, -5, -6]);
  });

  it('flatten channels last', () => {
    const { output } = run(new Flatten(), tf.reshape(tf.range(0, 12), [1, 2, 3, 2]), 'infer', noState);
    expect(output.arraySync()).toEqual([[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]]);
  });
});

describe('Dropout', () => {
  it('drops in mode train only, and keeps the mean', () => {
    const x = tf.ones([100, 100]);
    const { output } = run(new Dropout(0.25), x, 'train', noState);
    const values = output.dataSync();
    const dropped = values.filter((value) => value === 0).length / values.length;
    // The share of 10,000 draws has the standard deviation 0.0043.
    expect(Math.abs(dropped - 0.25)).toBeLessThan(0.02);
    expect(new Set(values)).toEqual(new Set([0, Math.fround(1 / 0.75)]));
    for (const mode of ['infer', 'batch-stats'] as const)
      expect(run(new Dropout(0.25), x, mode, noState).output).toBe(x);
  });

  it('refuses a rate outside of [0,1)', () => {
    for (const rate of [1, -0.1, Number.NaN])
      expect(() => new Dropout(rate)).toThrow(expect.objectContaining({ code: 'LAYER_OPTION' }));
  });
});

describe('Sequential', () => {
  it('names a list by number and a record by its keys', () => {
    const names = (module: Module) => describeModule(module, [1, 4]).taps.map(({ name }) => name);
    expect(names(new Sequential([new Dense(3), new Activation('relu')]))).toEqual(['0', '1']);
    expect(names(new Sequential({ head: new Sequential([new Dense(3)]) }))).toEqual(['head.0', 'head']);
  });
});
