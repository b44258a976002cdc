import { AlambicError } from '../errors.ts';
import type { DecodedImage, ResizeRule } from './source.ts';

type Size = readonly [height: number, width: number];

/** How an image is brought to a size: scaled to `scaled`, then the window [top, left] of the wanted size is cut out. */
export interface ResizePlan {
  readonly scaled: Size;
  readonly top: number;
  readonly left: number;
}

/** Images of up to so many values are resized at once: that takes less time than handing them to a thread. */
const SMALL = 16_384;

/**
 * The scale and cut that a rule asks for. With `cover` or a crop share below 1, as timm evaluates: the scaled image covers the wanted
 * size divided by the share, then the centre is cut out.
 *
 * Throws `DATA_SIZE` where the rule is `error` and the size differs.
 */
export function planResize(from: Size, to: Size, rule: ResizeRule, id: string): ResizePlan {
  const [height, width] = from;
  const [outHeight, outWidth] = to;
  const share = rule.cropShare ?? 1;
  const same = height === outHeight && width === outWidth;
  if (rule.rule === 'error' && !same) {
    throw new AlambicError(
      'DATA_SIZE',
      `expected an image of ${outHeight}x${outWidth}, got ${height}x${width}: ${id}`,
      { hint: 'Set the size in `input`, or allow resizing with the rule `resize` or `pad`.', at: id },
    );
  }
  if ((rule.fit !== 'cover' && share === 1) || rule.rule === 'error') return { scaled: to, top: 0, left: 0 };
  const scale = Math.max(Math.floor(outHeight / share) / height, Math.floor(outWidth / share) / width);
  const scaledHeight = Math.max(outHeight, Math.round(height * scale));
  const scaledWidth = Math.max(outWidth, Math.round(width * scale));
  return {
    scaled: [scaledHeight, scaledWidth],
    top: Math.round((scaledHeight - outHeight) / 2),
    left: Math.round((scaledWidth - outWidth) / 2),
  };
}

/**
 * Whether a resize is better done in sharp's threads: a large image that becomes smaller. Enlarging never is, since libvips shifts an
 * enlarged image by up to half a pixel.
 */
export function needsThread(from: Size, to: Size, channels: number, rule: ResizeRule, id: string): boolean {
  if (rule.rule === 'pad') return false;
  const { scaled } = planResize(from, to, rule, id);
  const shrinks = scaled[0] <= from[0] && scaled[1] <= from[1] && scaled[0] * scaled[1] < from[0] * from[1];
  return shrinks && from[0] * from[1] * channels > SMALL;
}

/**
 * Brings an image to a size without waiting, or returns undefined where a thread should do it (`needsThread`).
 *
 * Interpolation has half-pixel centres, antialias when shrinking and renormalised borders, as PIL and torchvision have it (bicubic
 * with a = -0.5). Throws `DATA_SIZE` where the rule forbids it.
 */
export function resizeNow(image: DecodedImage, to: Size, rule: ResizeRule, id: string): DecodedImage | undefined {
  const { height, width, channels } = image;
  if (rule.rule === 'pad') return padImage(image, to, id);
  const { scaled, top, left } = planResize([height, width], to, rule, id);
  if ([scaled[0], to[0]].every((y) => y === height) && [scaled[1], to[1]].every((x) => x === width)) return image;
  if (needsThread([height, width], to, channels, rule, id)) return undefined;
  const kernel = rule.interpolation ?? 'bilinear';
  const rows = tapsOf(height, scaled[0], kernel);
  const columns = tapsOf(width, scaled[1], kernel);
  const across = resampleColumns(image, columns, left, to[1]);
  return resampleRows(across, height, to[1], channels, rows, top, to[0]);
}

/** The image in the middle of a black one. Throws `DATA_SIZE` where it is larger. */
function padImage(image: DecodedImage, [outHeight, outWidth]: Size, id: string): DecodedImage {
  const { data, height, width, channels } = image;
  if (height === outHeight && width === outWidth) return image;
  const top = Math.floor((outHeight - height) / 2);
  const left = Math.floor((outWidth - width) / 2);
  if (height > outHeight || width > outWidth) {
    throw new AlambicError(
      'DATA_SIZE',
      `expected an image of at most ${outHeight}x${outWidth} to pad, got ${height}x${width}: ${id}`,
      { hint: 'Use the rule `resize` for images that are larger than the input.', at: id },
    );
  }
  const out = new Uint8Array(outHeight * outWidth * channels);
  const row = width * channels;
  for (let y = 0; y < height; y++) {
    out.set(data.subarray(y * row, (y + 1) * row), ((top + y) * outWidth + left) * channels);
  }
  return { data: out, height: outHeight, width: outWidth, channels };
}

/** Weights of the input pixels first[i] … first[i] + count - 1 for each output pixel i. */
interface Taps {
  readonly first: Int32Array;
  readonly count: number;
  readonly weights: Float32Array;
}

function kernelWeight(kernel: 'bilinear' | 'bicubic', x: number): number {
  const t = Math.abs(x);
  if (kernel === 'bilinear') return Math.max(0, 1 - t);
  if (t < 1) return (1.5 * t - 2.5) * t * t + 1;
  return t < 2 ? ((-0.5 * t + 2.5) * t - 4) * t + 2 : 0;
}

function tapsOf(from: number, to: number, kernel: NonNullable<ResizeRule['interpolation']>): Taps {
  const scale = from / to;
  const stretch = Math.max(1, scale);
  const support = kernel === 'nearest' ? 0.5 : (kernel === 'bilinear' ? 1 : 2) * stretch;
  const count = kernel === 'nearest' ? 1 : Math.ceil(2 * support) + 1;
  const first = new Int32Array(to);
  const weights = new Float32Array(to * count);
  for (let i = 0; i < to; i++) {
    const center = (i + 0.5) * scale;
    if (kernel === 'nearest') {
      first[i] = Math.min(from - 1, Math.floor(center));
      weights[i] = 1;
      continue;
    }
    const begin = Math.max(0, Math.floor(center - support + 0.5));
    const end = Math.min(from, Math.floor(center + support + 0.5));
    first[i] = begin;
    let sum = 0;
    for (let j = begin; j < end; j++) sum += kernelWeight(kernel, (j + 0.5 - center) / stretch);
    for (let j = begin; j < end; j++) {
      weights[i * count + j - begin] = kernelWeight(kernel, (j + 0.5 - center) / stretch) / sum;
    }
  }
  return { first, count, weights };
}

/** Output columns left … left + outWidth - 1 of every row: [H,outWidth,C], rounded to bytes as Pillow does between its passes. */
function resampleColumns(image: DecodedImage, taps: Taps, left: number, outWidth: number): Uint8ClampedArray {
  const { data, height, width, channels } = image;
  const out = new Float32Array(height * outWidth * channels);
  for (let y = 0; y < height; y++) {
    let to = y * outWidth * channels;
    for (let x = left; x < left + outWidth; x++, to += channels) {
      const first = taps.first[x]!;
      const used = Math.min(taps.count, width - first);
      let from = (y * width + first) * channels;
      for (let k = x * taps.count; k < x * taps.count + used; k++, from += channels) {
        const weight = taps.weights[k]!;
        if (weight === 0) continue;
        for (let c = 0; c < channels; c++) out[to + c]! += weight * data[from + c]!;
      }
    }
  }
  return new Uint8ClampedArray(out);
}

/** Output rows top … top + outHeight - 1, rounded to uint8 [outHeight,W,C]. */
function resampleRows(
  across: Uint8ClampedArray,
  height: number,
  width: number,
  channels: number,
  taps: Taps,
  top: number,
  outHeight: number,
): DecodedImage {
  const row = width * channels;
  const data = new Uint8ClampedArray(outHeight * row);
  const sums = new Float32Array(row);
  for (let y = 0; y < outHeight; y++) {
    sums.fill(0);
    const first = taps.first[top + y]!;
    const used = Math.min(taps.count, height - first);
    for (let k = 0; k < used; k++) {
      const weight = taps.weights[(top + y) * taps.count + k]!;
      if (weight === 0) continue;
      const from = (first + k) * row;
      for (let x = 0; x < row; x++) sums[x]! += weight * across[from + x]!;
    }
    data.set(sums, y * row);
  }
  return { data: new Uint8Array(data.buffer), height: outHeight, width, channels };
}
