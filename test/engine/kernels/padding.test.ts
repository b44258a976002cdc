import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { conv2d, depthwiseConv2d, pad2d, randomNormal, valueAndGradients } from '../../../src/engine/kernels/index.ts';
import { namedPadding, neededBorder, type Padding } from '../../../src/engine/kernels/padding.ts';
import { makeKey } from '../../../src/engine/random.ts';
import { openTestEngine } from '../../engine-setup.ts';

beforeAll(openTestEngine);

const windows = (size: number, window: number, stride: number) => ({
  size: [size, size],
  window: [window, window],
  stride: [stride, stride] as const,
});

describe('namedPadding', () => {
  it('calls torch’s padding same where the two agree', () => {
    expect(namedPadding(1, windows(32, 3, 1))).toBe('same');
    expect(namedPadding(1, windows(33, 3, 2))).toBe('same');
    expect(namedPadding(2, windows(8, 5, 1))).toBe('same');
    expect(namedPadding(0, windows(32, 1, 2))).toBe('valid');
  });

  it('keeps it where TensorFlow would pad the other side', () => {
    expect(namedPadding(1, windows(32, 3, 2))).toBe(1);
    expect(namedPadding(3, windows(224, 7, 2))).toBe(3);
    expect(namedPadding(2, windows(32, 3, 1))).toBe(2);
  });
});

it('neededBorder leaves out the zeros that no window reaches', () => {
  expect(neededBorder(1, windows(32, 3, 2))).toEqual([
    [1, 0],
    [1, 0],
  ]);
  expect(neededBorder(3, windows(10, 3, 4))).toEqual([
    [3, 2],
    [3, 2],
  ]);
  expect(neededBorder(2, windows(5, 3, 1))).toEqual([
    [2, 2],
    [2, 2],
  ]);
});

describe('convolutions with explicit padding equal those of an input padded by hand, with both gradients', () => {
  const paddings: Padding[] = [
    0,
    1,
    2,
    [
      [1, 0],
      [2, 1],
    ],
  ];
  for (const [name, convolve, outputs] of [
    ['conv2d', conv2d, 4],
    ['depthwiseConv2d', depthwiseConv2d, 1],
  ] as const) {
    for (const size of [7, 8]) {
      for (const stride of [1, 2, 3]) {
        it.each(paddings)(`${name}, size ${size}, stride ${stride}, padding %j`, (padding) => {
          tf.tidy(() => {
            const x = randomNormal(makeKey(1, 'x'), [2, size, size + 1, 3]);
            const kernel = randomNormal(makeKey(1, 'kernel'), [3, 3, 3, outputs]);
            const run = (forward: (x: tf.Tensor, kernel: tf.Tensor) => tf.Tensor) =>
              valueAndGradients(
                () => {
                  const y = forward(x, kernel);
                  // Weights that differ from place to place, so that a shifted gradient cannot pass.
                  const weights = randomNormal(makeKey(1, 'weights'), y.shape);
                  return { loss: tf.sum(tf.mul(y, weights)), aux: { y } };
                },
                { x, kernel },
              );
            const ours = run((input, weights) => convolve(input, weights, { stride, padding }));
            const plain = run((input, weights) => convolve(pad2d(input, padding), weights, { stride }));
            // Sums of at most 27·N·H·W products of order 1 in float32.
            for (const [actual, expected] of [
              [ours.aux.y, plain.aux.y],
              [ours.gradients['x']!, plain.gradients['x']!],
              [ours.gradients['kernel']!, plain.gradients['kernel']!],
            ] as const) {
              expect(actual.shape).toEqual(expected.shape);
              expect(tf.max(tf.abs(tf.sub(actual, expected))).dataSync()[0]).toBeLessThan(1e-4);
            }
          });
        });
      }
    }
  }
});
