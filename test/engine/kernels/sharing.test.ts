import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  addBias,
  batchNorm,
  conv2d,
  dense,
  dropout,
  logSoftmax,
  matMul,
  maxPool,
  relu,
  stopGradient,
  valueAndGradients,
} from '../../../src/engine/kernels/index.ts';
import { makeKey } from '../../../src/engine/random.ts';
import { openTestEngine } from '../../engine-setup.ts';
import { expectClose, inAllModes, type Tensors, tensorOf, wave } from '../modes.ts';

beforeAll(openTestEngine);

/** Gradients of every input of `loss`, in all modes, against central differences of the eager loss. */
async function expectGradients(loss: (t: Tensors) => tf.Tensor, inputs: Tensors, tolerance = 5e-3): Promise<void> {
  const found = await inAllModes((t) => {
    const step = valueAndGradients(() => ({ loss: loss(t), aux: {} }), t);
    return { loss: step.loss, ...step.gradients } as Record<string, tf.Tensor>;
  }, inputs);
  const step = 1 / 128;
  for (const [name, tensor] of Object.entries(inputs)) {
    const values = Float32Array.from(tensor.dataSync());
    const differences = Array.from(values, (value, i) => {
      const at = (moved: number) =>
        tf.tidy(() => {
          const nudged = values.slice();
          nudged[i] = moved;
          return loss({ ...inputs, [name]: tf.tensor(nudged, tensor.shape) }).dataSync()[0]!;
        });
      return (at(value + step) - at(value - step)) / (2 * step);
    });
    expectClose(found[name]!, { shape: tensor.shape, values: differences }, tolerance, `the gradient of ${name}`);
  }
}

describe('tensors and kernels used more than once', () => {
  it('adds up the gradients of a tensor that a kernel takes twice', () =>
    expectGradients(({ x }) => tf.sum(tf.square(matMul(x!, x!, false, true))), { x: tensorOf(wave([3, 4], 1)) }));

  it('adds up the gradients of one kernel tensor in two convolutions', () =>
    expectGradients(
      ({ x, kernel }) => tf.mean(tf.square(conv2d(conv2d(x!, kernel!, { padding: 1 }), kernel!, { padding: 'same' }))),
      { x: tensorOf(wave([1, 4, 4, 2], 2)), kernel: tensorOf(wave([3, 3, 2, 2], 3)) },
    ));

  it('keeps a gradient alive that two branches share', () =>
    expectGradients(
      ({ x, bias }) => {
        const y = addBias(x!, bias!);
        // addBias passes its incoming gradient on: once by itself, once into a sum with another branch.
        return tf.sum(tf.square(tf.add(addBias(y, bias!), y)));
      },
      { x: tensorOf(wave([3, 4], 4)), bias: tensorOf(wave([4], 5)) },
    ));

  it('goes through a residual block with a shared weight', () =>
    expectGradients(
      ({ x, kernel, bias }) => {
        const block = (h: tf.Tensor) => tf.add(h, relu(dense(h, kernel!, bias!)));
        return tf.mean(tf.square(block(block(block(x!)))));
      },
      { x: tensorOf(wave([3, 4], 6)), kernel: tensorOf(wave([4, 4], 7)), bias: tensorOf(wave([4], 8)) },
    ));

  it('normalises twice with the same scale and offset', () =>
    expectGradients(
      ({ x, scale, offset }) => {
        const norm = (h: tf.Tensor) =>
          batchNorm(
            h,
            { scale: scale!, offset: offset!, mean: tf.zeros([3]), variance: tf.ones([3]) },
            { epsilon: 1e-2, batchStatistics: true },
          ).y;
        return tf.sum(tf.mul(tensorOf(wave([5, 3], 99)), norm(tf.square(norm(x!)))));
      },
      { x: tensorOf(wave([5, 3], 9)), scale: tensorOf(wave([3], 10, 0.3, 1)), offset: tensorOf(wave([3], 11)) },
    ));

  it('uses one pooled map in two heads', () =>
    expectGradients(
      ({ x }) => {
        const pooled = maxPool(x!, { size: 2 });
        const flat = tf.reshape(pooled, [2, -1]);
        return tf.add(tf.sum(tf.square(logSoftmax(flat))), tf.sum(tf.square(pooled)));
      },
      { x: tensorOf(wave([2, 4, 4, 1], 12)) },
    ));
});

describe('stopGradient', () => {
  it('lets the value through and no gradient', async () => {
    const x = tensorOf(wave([2, 3], 13));
    const { gradient, y } = await inAllModes(
      ({ x }) => {
        const step = valueAndGradients(
          () => {
            const y = tf.mul(x!, stopGradient(x!));
            return { loss: tf.sum(y), aux: { y } };
          },
          { x: x! },
        );
        step.loss.dispose();
        return { gradient: step.gradients['x']!, y: step.aux.y };
      },
      { x },
    );
    const values = x.dataSync();
    expectClose(gradient, { shape: [2, 3], values }, 0, 'the gradient');
    expectClose(y, { shape: [2, 3], values: values.map((v) => v * v) }, 1e-7, 'the value');
  });
});

describe('valueAndGradients', () => {
  it('leaves out parameters that the loss does not depend on', async () => {
    const { a } = await inAllModes(
      ({ a, b }) => {
        const step = valueAndGradients(() => ({ loss: tf.sum(tf.square(a!)), aux: {} }), { a: a!, b: b! });
        expect(Object.keys(step.gradients)).toEqual(['a']);
        return { loss: step.loss, a: step.gradients['a']! };
      },
      { a: tf.tensor1d([1, 2]), b: tf.tensor1d([3]) },
    );
    expectClose(a!, { shape: [2], values: [2, 4] }, 0, 'the gradient');
  });

  it('gives the loss alone where there are no parameters', async () => {
    const { loss, square } = await inAllModes(
      ({ x }) => {
        const step = valueAndGradients(() => ({ loss: tf.sum(x!), aux: { square: tf.square(x!) } }), {});
        expect(step.gradients).toEqual({});
        return { loss: step.loss, square: step.aux.square };
      },
      { x: tf.tensor1d([1, 2]) },
    );
    expectClose(loss, { shape: [], values: [3] }, 0, 'the loss');
    expectClose(square, { shape: [2], values: [1, 4] }, 0, 'aux');
  });

  it('gives trees of aux, an argument among them, that outlive the call', async () => {
    const { same, twice } = await inAllModes(
      ({ x }) => {
        const step = valueAndGradients(
          () => ({ loss: tf.sum(x!), aux: { same: x!, nested: [{ twice: tf.mul(x!, 2) }] } }),
          { x: x! },
        );
        tf.dispose([step.loss, step.gradients]);
        return { same: step.aux.same, twice: step.aux.nested[0]!.twice };
      },
      { x: tf.tensor1d([1, 2]) },
    );
    expectClose(same, { shape: [2], values: [1, 2] }, 0, 'the argument');
    expectClose(twice, { shape: [2], values: [2, 4] }, 0, 'the nested result');
  });

  it('gives the gradient of a loss that is a parameter itself', async () => {
    const { x } = await inAllModes(
      ({ x }) => {
        const step = valueAndGradients(() => ({ loss: x!, aux: {} }), { x: x! });
        return { ...step.gradients } as { x: tf.Tensor };
      },
      { x: tf.scalar(3) },
    );
    expectClose(x, { shape: [], values: [1] }, 0, 'the gradient');
  });

  it('refuses a loss that is not a scalar', () => {
    const x = tf.tensor1d([1, 2]);
    expect(() => valueAndGradients(() => ({ loss: tf.square(x), aux: {} }), { x })).toThrow(
      expect.objectContaining({ code: 'LOSS_SHAPE' }),
    );
  });

  it('can be used twice in one function, one result in the other', async () => {
    const { outer } = await inAllModes(
      ({ x, w }) => {
        const first = valueAndGradients(() => ({ loss: tf.sum(tf.square(matMul(x!, w!))), aux: {} }), { w: w! });
        const moved = tf.sub(w!, tf.mul(first.gradients['w']!, 0.1));
        const second = valueAndGradients(() => ({ loss: tf.sum(tf.square(matMul(x!, moved))), aux: {} }), { moved });
        return { outer: second.gradients['moved']!, first: first.loss, second: second.loss };
      },
      { x: tensorOf(wave([3, 2], 14)), w: tensorOf(wave([2, 2], 15)) },
    );
    expect(outer.shape).toEqual([2, 2]);
  });

  it('leaves no tensor behind in a tidy', () => {
    const x = tensorOf(wave([2, 3], 16));
    const before = tf.memory().numTensors;
    for (let i = 0; i < 5; i++)
      tf.tidy(() => {
        valueAndGradients(
          () => ({ loss: tf.sum(dropout(relu(x), 0.5, makeKey(1, 'drop', i))), aux: { y: tf.square(x) } }),
          { x },
        );
      });
    expect(tf.memory().numTensors).toBe(before);
    x.dispose();
  });
});
