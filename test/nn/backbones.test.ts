import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { describeModule } from '../../src/nn/describe.ts';
import { torchCounters, torchShape } from '../../src/nn/layout.ts';
import { createBackbone, ZOO } from '../../src/nn/zoo.ts';
import { openTestEngine } from '../engine-setup.ts';

interface Reference {
  readonly parameters: number;
  readonly macs: number;
  readonly state: Record<string, number[]>;
}

// Made by test/fixtures/generate/backbones.py from timm and a torch definition of the CIFAR ResNets.
const reference: Record<string, Reference> = JSON.parse(
  readFileSync(new URL('../fixtures/nn/backbone-names.json', import.meta.url), 'utf8'),
);

beforeAll(openTestEngine);

describe.each(Object.entries(reference))('%s', (name, expected) => {
  it('has the names and shapes of the reference, so that a strict load takes it', () => {
    const { parameters, buffers } = describeModule(createBackbone(name));
    const ours = Object.fromEntries([
      ...parameters.map((spec) => [spec.name, torchShape(spec)]),
      ...buffers.map((spec) => [spec.name, spec.shape]),
      ...torchCounters(buffers).map((counter) => [counter, []]),
    ]);
    expect(ours).toEqual(expected.state);
  });

  it('has the parameters and multiply-accumulates of the reference', () => {
    const { parameterCount, macs } = describeModule(createBackbone(name));
    expect({ parameters: parameterCount, macs }).toEqual({ parameters: expected.parameters, macs: expected.macs });
  });
});

describe('published counts', () => {
  it.each([
    ['resnet18', 11_689_512],
    ['resnet34', 21_797_672],
    ['resnet50', 25_557_032],
    ['mobilenetv2_100', 3_504_872],
    ['resnet8x4', 1_233_540],
    ['resnet32x4', 7_433_860],
    ['resnet20', 278_324],
  ])('%s has %d parameters', (name, count) => {
    expect(describeModule(createBackbone(name)).parameterCount).toBe(count);
  });
});

describe.each(ZOO.map(({ name }) => name))('%s', (name) => {
  it('takes other sizes, channels and classes', () => {
    const backbone = createBackbone(name, { inputSize: [40, 28, 2], classes: 7 });
    expect(backbone.inputSize).toEqual([40, 28, 2]);
    const description = describeModule(backbone);
    expect(description.inputShape).toEqual([1, 40, 28, 2]);
    expect(description.outputShape).toEqual([1, 7]);
    expect(describeModule(backbone, [6, 33, 35, 2]).outputShape[0]).toBe(6);
  });

  it('publishes stem, every depth group, and the features before its classifier', () => {
    const backbone = createBackbone(name, { inputSize: [32, 32, 3], classes: 10 });
    const description = describeModule(backbone);
    const taps = new Map(description.taps.map((tap) => [tap.name, tap.shape]));
    const kernel = description.parameters.find((spec) => spec.name === `${backbone.classifier}.weight`)!;
    expect(taps.get(backbone.featureTap)).toEqual([1, kernel.shape[0]]);
    for (const group of backbone.depthGroups) expect([...taps.keys()]).toContain(group.name);
  });
});

describe('cost per sample', () => {
  it('does not depend on the batch', () => {
    const backbone = createBackbone('resnet8');
    expect(describeModule(backbone, [16, 32, 32, 3]).macs).toBe(describeModule(backbone).macs);
  });
});

describe('the CIFAR stem', () => {
  it('keeps the size of small pictures', () => {
    const taps = describeModule(
      createBackbone('resnet18', { inputSize: [32, 32, 3], classes: 10, options: { stem: 'cifar' } }),
    ).taps;
    expect(taps.find(({ name }) => name === 'stem')?.shape).toEqual([1, 32, 32, 64]);
    expect(taps.find(({ name }) => name === 'layer4')?.shape).toEqual([1, 4, 4, 512]);
  });
});
