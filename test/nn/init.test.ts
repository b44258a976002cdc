import * as tf from '@tensorflow/tfjs-core';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeKey } from '../../src/engine/random.ts';
import { describeModule, initialise } from '../../src/nn/describe.ts';
import {
  constant,
  fansOf,
  fanUniform,
  kaimingNormal,
  kaimingUniform,
  normal,
  ones,
  truncatedNormal,
  uniform,
  xavierNormal,
  xavierUniform,
  zeros,
} from '../../src/nn/init.ts';
import type { Init, Shape } from '../../src/nn/module.ts';
import { createBackbone } from '../../src/nn/zoo.ts';
import { openTestEngine } from '../engine-setup.ts';

beforeAll(openTestEngine);
beforeEach(() => tf.engine().startScope());
afterEach(() => tf.engine().endScope());

const values = (init: Init, shape: Shape) => init(shape, makeKey(11, 'weight')).dataSync<'float32'>();

function moments(data: Float32Array) {
  const mean = data.reduce((sum, value) => sum + value, 0) / data.length;
  const variance = data.reduce((sum, value) => sum + (value - mean) ** 2, 0) / data.length;
  const max = data.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
  return { mean, std: Math.sqrt(variance), max };
}

// 73,728 values: the standard deviation of their standard deviation is 0.3 % of it, so 1.5 % is five of them.
const KERNEL = [3, 3, 64, 128] as const;

describe('fansOf', () => {
  it('counts taps times inputs and outputs', () => {
    expect(fansOf(KERNEL)).toEqual({ in: 576, out: 1152 });
    expect(fansOf([5, 7])).toEqual({ in: 5, out: 7 });
    expect(fansOf([3, 3, 32, 1], true)).toEqual({ in: 9, out: 9 });
  });

  it('refuses what is no kernel', () => {
    expect(() => fansOf([5])).toThrow(expect.objectContaining({ code: 'INIT_SHAPE' }));
  });
});

describe('random initialisers', () => {
  it.each<[string, Init, number, number | undefined]>([
    ['kaimingNormal in', kaimingNormal(), Math.sqrt(2 / 576), undefined],
    ['kaimingNormal out', kaimingNormal({ mode: 'out' }), Math.sqrt(2 / 1152), undefined],
    ['kaimingUniform in', kaimingUniform(), Math.sqrt(2 / 576), Math.sqrt(6 / 576)],
    ['fanUniform', fanUniform(), 1 / Math.sqrt(3 * 576), 1 / Math.sqrt(576)],
    ['xavierNormal', xavierNormal(), Math.sqrt(2 / 1728), undefined],
    ['xavierUniform', xavierUniform(2), 2 * Math.sqrt(2 / 1728), 2 * Math.sqrt(6 / 1728)],
    ['normal', normal(0.3), 0.3, undefined],
    ['uniform', uniform(-0.5, 0.5), 1 / Math.sqrt(12), 0.5],
    // A normal cut at two standard deviations keeps 0.8796 of its own.
    ['truncatedNormal', truncatedNormal(0.02), 0.02 * 0.8796, 0.04],
  ])('%s has its standard deviation and bound', (_, init, std, bound) => {
    const actual = moments(values(init, KERNEL));
    expect(Math.abs(actual.std / std - 1)).toBeLessThan(0.015);
    expect(Math.abs(actual.mean)).toBeLessThan(0.02 * std);
    if (bound !== undefined) {
      expect(actual.max).toBeLessThanOrEqual(bound * 1.000001);
      expect(actual.max).toBeGreaterThan(bound * 0.99);
    }
  });

  it('takes a mean', () => {
    expect(moments(values(normal(0.1, 3), KERNEL)).mean).toBeCloseTo(3, 2);
    expect(moments(values(truncatedNormal(0.1, -2), KERNEL)).mean).toBeCloseTo(-2, 2);
  });

  it('treats a depthwise kernel as one filter per channel', () => {
    const { std } = moments(values(kaimingNormal({ mode: 'out', depthwise: true }), [3, 3, 8192, 1]));
    expect(Math.abs(std / Math.sqrt(2 / 9) - 1)).toBeLessThan(0.015);
  });
});

describe('constants', () => {
  it('fill any shape', () => {
    expect([...values(zeros(), [2])]).toEqual([0, 0]);
    expect([...values(ones(), [2])]).toEqual([1, 1]);
    expect([...values(constant(0.25), [1, 2])]).toEqual([0.25, 0.25]);
  });
});

describe('backbones start as their reference does', () => {
  const start = (name: string, options = {}) => {
    const backbone = createBackbone(name, { classes: 100, options });
    return initialise(describeModule(backbone), 5).params;
  };

  it('ResNet: He’s normal over the outputs, torch’s linear, the last norm of a block 0', () => {
    const params = start('resnet18');
    const std = (name: string) => moments(params[name]!.dataSync<'float32'>()).std;
    expect(std('layer4.1.conv2.weight')).toBeCloseTo(Math.sqrt(2 / (9 * 512)), 3);
    expect(std('layer4.0.downsample.0.weight')).toBeCloseTo(Math.sqrt(2 / 512), 3);
    expect(moments(params['fc.weight']!.dataSync<'float32'>()).max).toBeCloseTo(1 / Math.sqrt(512), 4);
    expect(moments(params['fc.bias']!.dataSync<'float32'>()).max).toBeLessThanOrEqual(1 / Math.sqrt(512));
    expect(moments(params['layer1.0.bn2.weight']!.dataSync<'float32'>()).max).toBe(0);
    expect(params['layer1.0.bn1.weight']!.min().arraySync()).toBe(1);
    expect(start('resnet18', { zeroInitLast: false })['layer1.0.bn2.weight']!.min().arraySync()).toBe(1);
    expect(start('resnet20')['layer1.0.bn2.weight']!.min().arraySync()).toBe(1);
    expect(moments(start('resnet50')['layer1.0.bn3.weight']!.dataSync<'float32'>()).max).toBe(0);
  });

  it('MobileNetV2: He’s normal over the outputs, depthwise over 9, classifier uniform over the outputs', () => {
    const params = start('mobilenetv2_100');
    const stats = (name: string) => moments(params[name]!.dataSync<'float32'>());
    expect(Math.abs(stats('blocks.5.1.conv_dw.weight').std / Math.sqrt(2 / 9) - 1)).toBeLessThan(0.03);
    expect(stats('conv_head.weight').std).toBeCloseTo(Math.sqrt(2 / 1280), 3);
    expect(stats('classifier.weight').max).toBeCloseTo(1 / Math.sqrt(100), 4);
    expect(stats('classifier.bias').max).toBe(0);
  });
});
