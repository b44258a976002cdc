import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeKey } from '../../src/engine/random.ts';
import { applyModule, depthGroupOf, describeModule, initialise } from '../../src/nn/describe.ts';
import { normal, zeros } from '../../src/nn/init.ts';
import { BatchNorm, Conv, Dense, Dropout, Sequential } from '../../src/nn/layers/index.ts';
import type { Module, Scope } from '../../src/nn/module.ts';
import { coversName } from '../../src/nn/scope.ts';
import { createBackbone } from '../../src/nn/zoo.ts';
import { openTestEngine } from '../engine-setup.ts';

beforeAll(openTestEngine);
beforeEach(() => tf.engine().startScope());
afterEach(() => tf.engine().endScope());

const code = (run: () => unknown) => {
  try {
    run();
  } catch (error) {
    return { code: (error as { code?: string }).code, message: (error as Error).message };
  }
  return { code: 'none', message: '' };
};

const module = (call: (scope: Scope, x: Tensor) => Tensor): Module => ({ call });

describe('coversName', () => {
  it.each([
    ['layer1.0', 'layer1.0.conv1.weight', true],
    ['layer1.0', 'layer1.0', true],
    ['layer1.0', 'layer1.01.conv1.weight', false],
    ['layer1', 'layer10.0', false],
    ['', 'anything', true],
  ])('%s covers %s: %s', (prefix, name, expected) => {
    expect(coversName(prefix, name)).toBe(expected);
  });
});

describe('the dry run', () => {
  it('refuses one name for two parameters, whether or not the shapes agree', () => {
    const alike = module((scope, x) => {
      new Dense(3).call(scope.child('fc'), x);
      return new Dense(3).call(scope.child('fc'), x);
    });
    const unlike = module((scope, x) => new Dense(3).call(scope.child('fc'), new Dense(5).call(scope.child('fc'), x)));
    for (const duplicate of [alike, unlike]) {
      const error = code(() => describeModule(duplicate, [2, 5]));
      expect(error.code).toBe('DUPLICATE_PARAMETER');
      expect(error.message).toContain('"fc.weight"');
    }
  });

  it('lets one module that is called twice share its parameters', () => {
    const shared = new Dense(5);
    const twice = module((scope, x) => shared.call(scope.child('fc'), shared.call(scope.child('fc'), x)));
    const description = describeModule(twice, [2, 5]);
    expect(description.parameters.map(({ name }) => name)).toEqual(['fc.weight', 'fc.bias']);
    expect(description.taps.map(({ name }) => name)).toEqual(['fc', 'fc#2']);
    expect(description.macs).toBe(2 * 25);
    const backbone = createBackbone('resnet8', { inputSize: [16, 16, 3], classes: 4 });
    const views = module((scope, x) => tf.add(backbone.call(scope, x), backbone.call(scope, tf.neg(x))));
    expect(describeModule(views, [1, 16, 16, 3]).parameterCount).toBe(describeModule(backbone).parameterCount);
  });

  it('makes no tensor and computes nothing', () => {
    const before = tf.memory().numTensors;
    describeModule(createBackbone('resnet20'));
    expect(tf.memory().numTensors).toBe(before);
  });

  it('names the parameter that lies in no depth group, or in two', () => {
    const backbone = createBackbone('mlp', { inputSize: [4, 4, 1], classes: 2 });
    const none = [{ name: 'stem', prefixes: ['layers'] }];
    expect(code(() => describeModule(backbone, undefined, { depthGroups: none }))).toMatchObject({
      code: 'UNGROUPED_PARAMETER',
      message: expect.stringContaining('"fc.weight"'),
    });
    const two = [...backbone.depthGroups, { name: 'again', prefixes: ['layers.0.weight'] }];
    expect(code(() => describeModule(backbone, undefined, { depthGroups: two })).message).toContain('2 depth groups');
    const unused = [...backbone.depthGroups, { name: 'extra', prefixes: ['layer9'] }];
    expect(code(() => describeModule(backbone, undefined, { depthGroups: unused })).message).toContain('"layer9"');
  });

  it('says where a parameter lies', () => {
    const backbone = createBackbone('mobilenetv2_100');
    expect(depthGroupOf(backbone, 'blocks.1.0.bn1.weight')).toBe('blocks.1.0');
    expect(depthGroupOf(backbone, 'bn1.weight')).toBe('stem');
    expect(depthGroupOf(backbone, 'bn2.bias')).toBe('head');
    expect(code(() => depthGroupOf(backbone, 'bn3.bias')).code).toBe('UNGROUPED_PARAMETER');
  });
});

describe('initialise', () => {
  it('gives each parameter a value of (seed, name) alone', () => {
    const few = initialise(describeModule(new Sequential({ a: new Dense(4), c: new Dense(3) }), [1, 5]), 7);
    const more = initialise(
      describeModule(new Sequential({ a: new Dense(4), b: new Dense(4), c: new Dense(3) }), [1, 5]),
      7,
    );
    expect(more.params['c.weight']!.arraySync()).toEqual(few.params['c.weight']!.arraySync());
    expect(more.params['b.weight']!.arraySync()).not.toEqual(few.params['a.weight']!.arraySync());
    const other = initialise(describeModule(new Dense(3), [1, 5]), 8).params['weight']!.arraySync();
    expect(other).not.toEqual(initialise(describeModule(new Dense(3), [1, 5]), 7).params['weight']!.arraySync());
  });

  it('refuses an initialiser that gives another shape', () => {
    const wrong = module((scope, x) =>
      tf.mul(
        x,
        scope.param('w', [5], () => tf.zeros([4]), 'scale'),
      ),
    );
    expect(code(() => initialise(describeModule(wrong, [1, 5]), 0))).toMatchObject({
      code: 'SHAPE_MISMATCH',
      message: expect.stringContaining('"w"'),
    });
  });
});

describe('applyModule', () => {
  const network = new Sequential({
    conv: new Conv(4, { kernel: 3, padding: 1 }),
    bn: new BatchNorm(),
    drop: new Dropout(0.5),
  });
  const images = () => tf.randomNormal([2, 6, 6, 3], 0, 1, 'float32', 3);
  const state = () => initialise(describeModule(network, [2, 6, 6, 3]), 1);

  it('names the missing parameter and the nearest known one', () => {
    const { params, buffers } = state();
    const { 'conv.weight': weight, ...rest } = params;
    const run = () =>
      applyModule(network, { params: { ...rest, 'conv.weigth': weight! }, buffers }, images(), { mode: 'infer' });
    expect(code(run)).toMatchObject({
      code: 'MISSING_PARAMETER',
      message: expect.stringMatching(/"conv\.weight".*"conv\.weigth"/),
    });
  });

  it('refuses a wrong shape, of a value and of an update', () => {
    const { params, buffers } = state();
    const wrong = { ...params, 'bn.bias': tf.zeros([5]) };
    expect(code(() => applyModule(network, { params: wrong, buffers }, images(), { mode: 'infer' }))).toMatchObject({
      code: 'SHAPE_MISMATCH',
      message: 'bn.bias: expected shape [4], got [5]',
    });
    const queue = module((scope, x) => {
      scope.buffer('queue', [3], zeros());
      scope.update('queue', tf.zeros([2]));
      return x;
    });
    expect(code(() => describeModule(queue, [1, 2])).code).toBe('SHAPE_MISMATCH');
    const empty = { params: {}, buffers: { queue: tf.zeros([3]) } };
    expect(code(() => applyModule(queue, empty, tf.zeros([1, 2]), { mode: 'train' })).code).toBe('SHAPE_MISMATCH');
  });

  it('lets the longest prefix decide the mode', () => {
    const seen: Record<string, string> = {};
    const note = (scope: Scope) => {
      seen[scope.path] = scope.mode;
    };
    const nested = module((scope, x) => {
      note(scope);
      const a = scope.child('a');
      note(a);
      for (const name of ['0', '01']) note(a.child(name));
      note(a.child('0').child('bn'));
      return x;
    });
    const modes = { a: 'infer', 'a.0': 'batch-stats', 'a.0.bn': 'train' } as const;
    applyModule(nested, { params: {}, buffers: {} }, tf.zeros([1]), { mode: 'train', modes });
    expect(seen).toEqual({ '': 'train', a: 'infer', 'a.0': 'batch-stats', 'a.01': 'infer', 'a.0.bn': 'train' });
    applyModule(nested, { params: {}, buffers: {} }, tf.zeros([1]), { mode: 'train', modes: { '': 'infer' } });
    expect(new Set(Object.values(seen))).toEqual(new Set(['infer']));
  });

  it('refuses a mode for a module that is not there', () => {
    const run = () => applyModule(network, state(), images(), { mode: 'infer', modes: { bn1: 'train' } });
    expect(code(run)).toMatchObject({ code: 'UNKNOWN_MODULE', message: expect.stringContaining('did you mean "bn"') });
  });

  it('collects updates in mode train only, and never touches the state', () => {
    const { params, buffers } = state();
    const before = Object.entries(buffers).map(([name, value]) => [name, value.arraySync()]);
    const key = makeKey(1, '');
    const updates = (mode: 'train' | 'infer' | 'batch-stats', modes = {}) =>
      Object.keys(applyModule(network, { params, buffers }, images(), { mode, modes, key }).updates);
    expect(updates('train')).toEqual(['bn.running_mean', 'bn.running_var']);
    expect(updates('batch-stats')).toEqual([]);
    expect(updates('infer')).toEqual([]);
    expect(updates('train', { bn: 'infer' })).toEqual([]);
    expect(Object.entries(buffers).map(([name, value]) => [name, value.arraySync()])).toEqual(before);
  });

  it('lets a second call in one pass go on from the first one’s update', () => {
    const counter = module((scope, x) => {
      const count = scope.buffer('count', [], zeros());
      scope.update('count', tf.add(count, 1));
      return x;
    });
    const twice = module((scope, x) => counter.call(scope.child('c'), counter.call(scope.child('c'), x)));
    const buffers = { 'c.count': tf.scalar(5) };
    const { updates } = applyModule(twice, { params: {}, buffers }, tf.zeros([1]), { mode: 'train' });
    expect(updates['c.count']!.arraySync()).toBe(7);
  });

  it('draws by path and key, and anew at a second call', () => {
    const drop = new Dropout(0.5);
    const two = module((scope, x) =>
      tf.stack([drop.call(scope.child('a'), x), drop.call(scope.child('b'), x), drop.call(scope.child('a'), x)]),
    );
    const ones = tf.ones([64]);
    const run = (seed: number) =>
      applyModule(two, { params: {}, buffers: {} }, ones, {
        mode: 'train',
        key: makeKey(seed, 'p'),
      }).output.arraySync() as number[][];
    const [a, b, again] = run(3);
    expect(run(3)).toEqual([a, b, again]);
    expect(a).not.toEqual(b);
    expect(a).not.toEqual(again);
    expect(run(4)[0]).not.toEqual(a);
    const keyless = () => applyModule(two, { params: {}, buffers: {} }, ones, { mode: 'train' });
    expect(code(keyless).code).toBe('RANDOM_KEY_MISSING');
  });

  it('gives the taps in the order of the pass, as values of the same pass', () => {
    const { taps, output } = applyModule(network, state(), images(), { mode: 'infer' });
    expect([...taps.keys()]).toEqual(['conv', 'bn', 'drop']);
    expect(taps.get('drop')).toBe(output);
  });
});

describe('a parameter of a module of one’s own', () => {
  it('is declared where it is used', () => {
    const init = normal(0.1);
    const scale = module((scope, x) => tf.mul(x, scope.param('gamma', [x.shape[1]!], init, 'scale')));
    const [spec] = describeModule(scale, [2, 6]).parameters;
    expect(spec).toMatchObject({ name: 'gamma', shape: [6], role: 'scale' });
  });
});
