import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readSafetensors, writeSafetensors } from '../../src/formats/safetensors.ts';
import { tensorData, toFloat32 } from '../../src/formats/tensor-data.ts';
import type { Init, ModelDescription, ParameterSpec } from '../../src/nn/module.ts';
import { decodeModelConfig, encodeModelConfig } from '../../src/train/model-config.ts';
import { loadModel, loadWeights, readModelConfig, saveModel } from '../../src/train/model-files.ts';

const FIXTURES = fileURLToPath(new URL('../fixtures/formats/', import.meta.url));
const TIMM = join(FIXTURES, 'timm-like');
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'alambic-model-'));
});
afterEach(() => rm(folder, { recursive: true }));

const init: Init = () => {
  throw new Error('no value is made here');
};
const parameter = (name: string, shape: number[], role: ParameterSpec['role']) => ({ name, shape, role, init });

function describeTiny(classes = 5): ModelDescription {
  return {
    architecture: 'tiny',
    inputShape: [32, 24, 3],
    outputShape: [classes],
    parameters: [
      parameter('conv1.weight', [3, 2, 3, 4], 'kernel'),
      parameter('bn1.weight', [4], 'norm'),
      parameter('bn1.bias', [4], 'norm'),
      parameter('conv_dw.weight', [3, 3, 4, 1], 'depthwise-kernel'),
      parameter('conv_dw.bias', [4], 'bias'),
      parameter('fc.weight', [4, classes], 'kernel'),
      parameter('fc.bias', [classes], 'bias'),
    ],
    buffers: [
      { name: 'bn1.running_mean', shape: [4], init },
      { name: 'bn1.running_var', shape: [4], init },
    ],
    taps: [],
    macs: 0,
    parameterCount: 141,
    depthGroups: [],
    classifier: 'fc',
  };
}

const nhwc = Object.fromEntries(
  Object.entries((await readSafetensors(join(FIXTURES, 'timm-like-nhwc.safetensors'))).tensors).map(
    ([name, tensor]) => [name, toFloat32(tensor)],
  ),
);

describe('a model folder as timm writes it', () => {
  it('gives the weights in our layout, labels and preprocessing', async () => {
    const model = await loadModel(TIMM, describeTiny());
    expect(model.arrays).toEqual(nhwc);
    expect(model.report).toEqual({ missing: [], unexpected: [], reshaped: [], mismatched: [], dropped: [] });
    expect(model.labels).toEqual(['ant', 'bee', 'cat', 'dog', 'emu']);
    expect(model).toMatchObject({ architecture: 'tiny', classes: 5, classifier: 'fc' });
    expect(model.preprocessing).toEqual({
      inputSize: [32, 24, 3],
      mean: [0.485, 0.456, 0.406],
      std: [0.229, 0.224, 0.225],
      interpolation: 'bicubic',
      cropShare: 0.95,
    });
  });

  it('is written again with the same names, shapes and values', async () => {
    const { labels, preprocessing, arrays } = await loadModel(TIMM, describeTiny());
    await saveModel(join(folder, 'm'), { description: describeTiny(), arrays, labels, preprocessing });
    expect((await readdir(join(folder, 'm'))).sort()).toEqual(['config.json', 'model.safetensors']);
    const theirs = (await readSafetensors(join(TIMM, 'model.safetensors'))).tensors;
    const ours = await readSafetensors(join(folder, 'm', 'model.safetensors'));
    const counter = 'bn1.num_batches_tracked';
    expect(ours.tensors).toEqual({ ...theirs, [counter]: { ...theirs[counter], data: BigInt64Array.of(0n) } });
    expect(ours.metadata).toEqual({ format: 'pt' });
    expect(await readModelConfig(join(folder, 'm'))).toEqual(await readModelConfig(TIMM));
    const config = JSON.parse(await readFile(join(folder, 'm', 'config.json'), 'utf8')) as unknown;
    expect(config).toMatchObject({
      architecture: 'tiny',
      num_classes: 5,
      label_names: labels,
      pretrained_cfg: { input_size: [3, 32, 24], crop_pct: 0.95, interpolation: 'bicubic', classifier: 'fc' },
    });
  });

  it('replaces an older folder as a whole', async () => {
    const { labels, preprocessing, arrays } = await loadModel(TIMM, describeTiny());
    const path = join(folder, 'm');
    await cp(TIMM, path, { recursive: true });
    await writeFile(join(path, 'notes.txt'), 'old');
    await saveModel(path, { description: describeTiny(), arrays, labels, preprocessing });
    expect(await readdir(folder)).toEqual(['m']);
    expect((await readdir(path)).sort()).toEqual(['config.json', 'model.safetensors']);
  });

  it('takes half precision and the prefixes of torch wrappers', async () => {
    const { tensors } = await readSafetensors(join(TIMM, 'model.safetensors'));
    const wrapped = Object.entries(tensors).map(([name, tensor]) => [`_orig_mod.module.${name}`, tensor]);
    const half = { dtype: 'F16', shape: [5], data: Uint16Array.of(0x3c00, 0xc000, 0, 0, 0x3800) } as const;
    const all = { ...Object.fromEntries(wrapped), '_orig_mod.module.fc.bias': half };
    await writeSafetensors(join(folder, 'w.safetensors'), all);
    const { arrays } = await loadWeights(join(folder, 'w.safetensors'), describeTiny());
    expect(arrays).toEqual({ ...nhwc, 'fc.bias': Float32Array.of(1, -2, 0, 0, 0.5) });
  });
});

describe('weights that do not fit', () => {
  const change = async (edit: (tensors: Record<string, ReturnType<typeof tensorData>>) => void) => {
    const { tensors } = await readSafetensors(join(TIMM, 'model.safetensors'));
    const edited = { ...tensors };
    edit(edited);
    const path = join(folder, 'w.safetensors');
    await writeSafetensors(path, edited);
    return path;
  };

  it('missing and unexpected names are an error with the likely mix-up', async () => {
    const path = await change((tensors) => {
      tensors['bn1.weigth'] = tensors['bn1.weight']!;
      delete tensors['bn1.weight'];
      tensors['head.weight'] = tensorData(new Float32Array(3));
    });
    await expect(loadWeights(path, describeTiny())).rejects.toMatchObject({
      code: 'MODEL_WEIGHTS',
      message:
        'the weights do not fit tiny: missing in the file: bn1.weight; unexpected in the file: bn1.weigth, head.weight',
      hint: expect.stringContaining('"bn1.weigth" may be "bn1.weight"'),
    });
    const { arrays, report } = await loadWeights(path, describeTiny(), { strict: false });
    expect(report).toMatchObject({ missing: ['bn1.weight'], unexpected: ['bn1.weigth', 'head.weight'] });
    expect(Object.keys(arrays)).not.toContain('bn1.weight');
  });

  it('another number of classes is said to be just that, and dropped on demand', async () => {
    await expect(loadModel(TIMM, describeTiny(7))).rejects.toMatchObject({
      code: 'MODEL_WEIGHTS',
      message:
        'the weights do not fit tiny: of another shape: fc.weight (file [5,4], needed [7,4]), fc.bias (file [5], needed [7])',
      hint: expect.stringContaining('classifier: drop'),
    });
    const { arrays, report } = await loadModel(TIMM, describeTiny(7), { classifier: 'drop' });
    expect(report.dropped).toEqual(['fc.weight', 'fc.bias']);
    const { 'fc.weight': _, 'fc.bias': __, ...rest } = nhwc;
    expect(arrays).toEqual(rest);
  });

  it('axes of size 1 may come and go, any other shape is a mismatch', async () => {
    const values = toFloat32((await readSafetensors(join(TIMM, 'model.safetensors'))).tensors['fc.weight']!);
    const asConvolution = await change((tensors) => {
      tensors['fc.weight'] = tensorData(values, [5, 4, 1, 1]);
    });
    const { arrays, report } = await loadWeights(asConvolution, describeTiny());
    expect(arrays).toEqual(nhwc);
    expect(report.reshaped).toEqual(['fc.weight']);
    const transposed = await change((tensors) => {
      tensors['fc.weight'] = tensorData(values, [4, 5]);
    });
    await expect(loadWeights(transposed, describeTiny())).rejects.toThrow(
      'of another shape: fc.weight (file [4,5], needed [5,4])',
    );
  });

  it('arrays that do not fit the description are not saved', async () => {
    const preprocessing = (await readModelConfig(TIMM)).preprocessing;
    const save = (arrays: Record<string, Float32Array>, labels: string[] = []) =>
      saveModel(join(folder, 'm'), { description: describeTiny(), arrays, labels, preprocessing });
    const { 'fc.bias': _, ...without } = nhwc;
    await expect(save(without)).rejects.toThrow('fc.bias: expected 5 values for [5], got none');
    await expect(save({ ...nhwc, 'fc.bias': new Float32Array(3) })).rejects.toThrow('got 3');
    await expect(save({ ...nhwc, extra: new Float32Array(3) })).rejects.toThrow('no parameter or buffer "extra"');
    await expect(save(nhwc, ['a'])).rejects.toThrow('expected 5 labels, one a class, got 1');
    expect(await readdir(folder)).toEqual([]);
  });

  it('missing files are named', async () => {
    await expect(readModelConfig(folder)).rejects.toMatchObject({
      code: 'MODEL_MISSING',
      at: join(folder, 'config.json'),
    });
    await cp(join(TIMM, 'config.json'), join(folder, 'config.json'));
    await expect(loadModel(folder, describeTiny())).rejects.toMatchObject({
      code: 'MODEL_MISSING',
      at: join(folder, 'model.safetensors'),
    });
  });
});

describe('config.json', () => {
  const config = {
    architecture: 'resnet8',
    classes: 2,
    labels: ['a', 'b'],
    preprocessing: { inputSize: [32, 28, 1], mean: [0.13], std: [0.31], interpolation: 'bilinear', cropShare: 1 },
  } as const;

  it('round trip, with one channel told to timm', () => {
    const text = encodeModelConfig(config);
    expect(decodeModelConfig(text, 'c')).toEqual(config);
    expect(JSON.parse(text)).toMatchObject({
      model_args: { in_chans: 1 },
      pretrained_cfg: { input_size: [1, 32, 28] },
    });
  });

  it('takes labels by index, and none at all', () => {
    const json = JSON.parse(encodeModelConfig(config)) as Record<string, unknown>;
    const labels = (label_names: unknown) => decodeModelConfig(JSON.stringify({ ...json, label_names }), 'c').labels;
    expect(labels({ 1: 'b', 0: 'a' })).toEqual(['a', 'b']);
    expect(labels({ 1: 'b' })).toEqual(['0', 'b']);
    expect(labels(undefined)).toEqual([]);
  });

  it('names the field that is wrong', () => {
    const json = JSON.parse(encodeModelConfig(config)) as Record<string, Record<string, unknown>>;
    const decode = (edit: object) => () => decodeModelConfig(JSON.stringify({ ...json, ...edit }), 'c.json');
    expect(() => decodeModelConfig('{', 'c.json')).toThrow(
      expect.objectContaining({ code: 'MODEL_CONFIG', at: 'c.json' }),
    );
    expect(decode({ architecture: 5 })).toThrow(/^architecture: /);
    expect(decode({ pretrained_cfg: { ...json['pretrained_cfg'], mean: [1, 2] } })).toThrow(
      'pretrained_cfg.mean: expected 1 values, got 2',
    );
    expect(decode({ pretrained_cfg: { ...json['pretrained_cfg'], interpolation: 'lanczos' } })).toThrow(
      /^pretrained_cfg\.interpolation: /,
    );
    expect(decode({ label_names: ['a'] })).toThrow('label_names: expected 2 names, one a class, got 1');
  });
});
