import { beforeAll, describe, expect, it } from 'vitest';
import { describeModule } from '../../src/nn/describe.ts';
import { createBackbone, MODEL_PLUGINS, ZOO, zooEntry } from '../../src/nn/zoo.ts';
import { PluginHost } from '../../src/plugin-host/host.ts';
import { openTestEngine } from '../engine-setup.ts';

beforeAll(openTestEngine);

function host() {
  const made = new PluginHost();
  for (const plugin of MODEL_PLUGINS) made.register(plugin, 'built in');
  return made;
}

const input = { inputSize: [16, 16, 1], classes: 3 } as const;

describe('the zoo as plugins', () => {
  it.each(ZOO.map(({ name }) => name))('%s is built through the host as without it', (name) => {
    const built = host().instantiate('model', name, {}).build(input);
    const direct = createBackbone(name, input);
    expect(built.architecture).toBe(name);
    const shapes = (backbone: typeof built) =>
      describeModule(backbone).parameters.map((spec) => [spec.name, spec.shape]);
    expect(shapes(built)).toEqual(shapes(direct));
  });

  it('passes the options on', () => {
    const built = host()
      .instantiate('model', 'cnn', { widths: [4, 8], depth: 2 })
      .build(input);
    expect(
      describeModule(built)
        .parameters.filter(({ role }) => role === 'kernel')
        .map(({ shape }) => shape),
    ).toEqual([
      [3, 3, 1, 4],
      [3, 3, 4, 4],
      [3, 3, 4, 8],
      [3, 3, 8, 8],
      [8, 3],
    ]);
  });

  it('says of every entry where it comes from and what it expects', () => {
    for (const { description, licence, preprocessing, classes } of ZOO) {
      expect(description).toMatch(/\.$/);
      expect(licence).toBe('Apache-2.0');
      expect(preprocessing.mean).toHaveLength(preprocessing.inputSize[2]);
      expect(classes).toBeGreaterThan(1);
    }
  });
});

describe('createBackbone', () => {
  it('builds for the published size and classes', () => {
    const backbone = createBackbone('mobilenetv2_050');
    expect(backbone.inputSize).toEqual([224, 224, 3]);
    expect(backbone.classes).toBe(1000);
    expect(createBackbone('resnet8x4').inputSize).toEqual([32, 32, 3]);
  });

  it('names the nearest network', () => {
    expect(() => zooEntry('resnet81')).toThrow(
      expect.objectContaining({
        code: 'UNKNOWN_MODEL',
        message: expect.stringMatching(/"resnet81": did you mean "resnet/),
      }),
    );
  });

  it.each([
    ['resnet18', { options: { stemm: 'cifar' } }, /stemm/],
    ['mobilenetv2_100', { options: { dropRate: 1 } }, /dropRate/],
    ['cnn', { options: { widths: [] } }, /widths/],
    ['mlp', { classes: 0 }, /at least one class, got 0/],
    ['resnet8', { inputSize: [32, 0, 3] as const }, /input size/],
  ])('%s refuses %j', (name, given, message) => {
    expect(() => createBackbone(name, given)).toThrow(
      expect.objectContaining({ code: 'MODEL_OPTION', message: expect.stringMatching(message) }),
    );
  });

  it('has options that change the network', () => {
    const taps = (name: string, options: Record<string, unknown>) =>
      new Map(
        describeModule(createBackbone(name, { inputSize: [32, 32, 3], classes: 2, options })).taps.map((tap) => [
          tap.name,
          tap.shape,
        ]),
      );
    expect(taps('mobilenetv2_100', { stemStride: 1 }).get('stem')).toEqual([1, 32, 32, 32]);
    expect(taps('mobilenetv2_100', { width: 2 }).get('features')).toEqual([1, 2560]);
    expect(taps('resnet8', { widths: [4, 8, 12, 20] }).get('features')).toEqual([1, 20]);
    expect(taps('resnet18', { dropRate: 0.2 }).has('drop')).toBe(true);
    expect(taps('mlp', { widths: [7, 5] }).get('layers.1')).toEqual([1, 5]);
  });
});
