import { beforeAll, describe, expect, it } from 'vitest';
import { describeModule } from '../../src/nn/describe.ts';
import { formatInspection, inspectModel } from '../../src/nn/inspect.ts';
import { createBackbone } from '../../src/nn/zoo.ts';
import { openTestEngine } from '../engine-setup.ts';

beforeAll(openTestEngine);

const total = (rows: readonly { parameters: number; macs: number }[]) => ({
  parameters: rows.reduce((sum, row) => sum + row.parameters, 0),
  macs: rows.reduce((sum, row) => sum + row.macs, 0),
});

describe.each(['resnet8', 'resnet50', 'mobilenetv2_100', 'cnn', 'mlp'])('inspectModel of %s', (name) => {
  it('has rows and groups that add up to the whole', () => {
    const data = inspectModel(createBackbone(name));
    const whole = { parameters: data.parameterCount, macs: data.macs };
    expect(total(data.rows)).toEqual(whole);
    expect(total(data.depthGroups)).toEqual(whole);
    expect(data.rows.every(({ outputShape }) => outputShape !== undefined)).toBe(true);
    expect(data.macs).toBe(describeModule(createBackbone(name)).macs);
    expect(JSON.parse(JSON.stringify(data))).toEqual(data);
  });
});

describe('inspectModel', () => {
  it('gives cost and shape of each module', () => {
    const data = inspectModel(createBackbone('resnet8'));
    const row = data.rows.find(({ module }) => module === 'layer2.0.conv1');
    expect(row).toEqual({
      module: 'layer2.0.conv1',
      outputShape: [1, 16, 16, 32],
      parameters: 9 * 16 * 32,
      macs: 9 * 16 * 32 * 16 * 16,
      depthGroup: 'layer2.0',
    });
    // 7 convolutions, 2 projections; 2 statistics per channel of each norm.
    expect(data.bufferCount).toBe(2 * (16 * 3 + 32 * 3 + 64 * 3));
  });
});

describe('formatInspection', () => {
  it('is text lines without trailing spaces, with totals first', () => {
    const lines = formatInspection(inspectModel(createBackbone('resnet8')));
    expect(lines.slice(0, 3)).toEqual([
      'resnet8: [1, 32, 32, 3] -> [1, 100]',
      '83,892 parameters, 672 buffer values, 12,507,392 MACs per sample',
      'classifier fc, features features',
    ]);
    expect(lines.some((line) => /^layer3\.0\.conv2 +\[1, 8, 8, 64\] +36,864 +2,359,296 +layer3\.0$/.test(line))).toBe(
      true,
    );
    expect(lines.some((line) => /^features +\[1, 64\]$/.test(line))).toBe(true);
    expect(lines.every((line) => line === line.trimEnd())).toBe(true);
  });
});
