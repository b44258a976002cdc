import { readFileSync } from 'node:fs';
import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { type AffineParameters, affineImages } from '../../../src/data/transforms/affine.ts';
import {
  adjustBrightness,
  adjustContrast,
  adjustHue,
  adjustSaturation,
  greyOf,
} from '../../../src/data/transforms/colour.ts';
import { type Border, cropAt, cropCenter } from '../../../src/data/transforms/crop.ts';
import { flipImages } from '../../../src/data/transforms/flip.ts';
import { normaliseImages } from '../../../src/data/transforms/normalise.ts';
import { type Interpolation, resample } from '../../../src/data/transforms/resample.ts';
import { capture } from '../../../src/engine/capture.ts';
import { openTestEngine } from '../../engine-setup.ts';

interface Case {
  name: string;
  parameters: Record<string, number[]>;
  constants: { size?: [number, number]; fill?: number };
  shape: number[];
  output: number[];
}
const fixture = JSON.parse(readFileSync(new URL('../../fixtures/data/transforms.json', import.meta.url), 'utf8')) as {
  images: number[];
  cases: Case[];
};

type Parameters = Record<string, Tensor>;
const border =
  (name: Border) =>
  (images: Tensor, { top, left }: Parameters) =>
    cropAt(images, tf.sub(top!, 3), tf.sub(left!, 3), [9, 7], name);
const resized =
  (kernel: Interpolation) =>
  (images: Tensor, p: Parameters, { size }: Case['constants']) =>
    resample(images, { top: p['top']!, left: p['left']!, height: p['height']!, width: p['width']! }, size!, kernel);

const OURS: Record<string, (images: Tensor, parameters: Parameters, constants: Case['constants']) => Tensor> = {
  brightness: (images, { factor }) => adjustBrightness(images, factor!),
  contrast: (images, { factor }) => adjustContrast(images, factor!),
  saturation: (images, { factor }) => adjustSaturation(images, factor!),
  hue: (images, { factor }) => adjustHue(images, factor!),
  grey: (images) => greyOf(images),
  'flip-horizontal': (images) => flipImages(images, tf.ones([3], 'bool')),
  'flip-vertical': (images) => flipImages(images, tf.ones([3], 'bool'), 'vertical'),
  normalise: (images) => normaliseImages(images, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
  'crop-constant': border('zero'),
  'crop-reflect': border('reflect'),
  'crop-edge': border('edge'),
  'center-crop': (images, _, { size }) => cropCenter(images, size!),
  'resized-crop-bilinear': resized('bilinear'),
  'resized-crop-bicubic': resized('bicubic'),
  affine: (images, p, { fill }) => affineImages(images, p as unknown as AffineParameters, fill),
};

describe('transforms equal torchvision', () => {
  beforeAll(openTestEngine);

  for (const mode of ['eager', 'graph', 'xla'] as const) {
    it.each(fixture.cases.map((c, i) => [`${c.name} ${JSON.stringify(c.constants)}`, c, i] as const))(
      `${mode}: %s`,
      async (_, c, i) => {
        const images = tf.tensor4d(fixture.images, [3, 9, 7, 3]);
        const parameters = Object.fromEntries(
          Object.entries(c.parameters).map(([key, values]) => [key, tf.tensor1d(values)]),
        );
        const run = capture(`${c.name}-${i}`, (x: Tensor, p: Parameters) => OURS[c.name]!(x, p, c.constants), { mode });
        const out = await run(images, parameters);
        expect(out.shape).toEqual(c.shape);
        const values = await out.data();
        const worst = Math.max(...c.output.map((value, k) => Math.abs(value - values[k]!)));
        // The fixture is rounded to 1e-6; sums of float32 in another order add a few units in the last place (normalise: values to 2.6).
        expect(worst).toBeLessThan(5e-6);
        tf.dispose([images, parameters, out]);
      },
    );
  }
});
