import type { Sharp } from 'sharp';
import { AlambicError } from '../errors.ts';
import { needsThread, planResize, resizeNow } from './resize.ts';
import type { DecodedImage, ResizeRule } from './source.ts';

type SharpModule = typeof import('sharp').default;

let loading: Promise<SharpModule> | undefined;

/**
 * The image library, loaded on first use. One libvips thread per image and no operation cache: the loader already reads several
 * images at once, and a training set is larger than any cache of single operations.
 */
export function loadSharp(): Promise<SharpModule> {
  loading ??= import('sharp').then(
    ({ default: sharp }) => {
      sharp.concurrency(1);
      sharp.cache(false);
      return sharp;
    },
    (error: unknown) => {
      loading = undefined;
      throw new AlambicError(
        'DATA_SHARP',
        `expected the image library sharp to load, got ${(error as Error).message}`,
        {
          hint: 'Run `npm install` again on this machine: sharp brings a binary for each platform.',
          cause: error,
        },
      );
    },
  );
  return loading;
}

export interface DecodeOptions {
  /** Grey or RGB. @default 3 */
  readonly channels?: 1 | 3;
  /** Colour behind transparent pixels. @default 'white' */
  readonly background?: string;
  /** [H,W] of the result; without it the image keeps its size. */
  readonly size?: Size;
  readonly rule?: ResizeRule;
}

type Size = readonly [height: number, width: number];

const KERNELS = { nearest: 'nearest', bilinear: 'linear', bicubic: 'cubic' } as const;

/** Weights of ITU-R BT.601, as PIL's mode `L` has them: grey of an RGB pixel. */
const LUMA: [number, number, number] = [0.299, 0.587, 0.114];

/**
 * Decodes an image file in sharp's threads to uint8 [H,W,C]: EXIF orientation applied, transparency laid over the background,
 * 16 bits reduced to 8, colour to grey by BT.601 where `channels` is 1.
 *
 * Throws `DATA_UNREADABLE`, named by `id`, where the file is missing, cut short or not an image.
 *
 * @example
 * const { data, height, width } = await decodeImage('cats/1.jpg', { channels: 3, size: [224, 224] });
 */
export async function decodeImage(
  input: string | Uint8Array,
  options: DecodeOptions = {},
  id = typeof input === 'string' ? input : 'image',
): Promise<DecodedImage> {
  const { channels = 3, background = 'white', size, rule = {} } = options;
  const sharp = await loadSharp();
  try {
    let image = sharp(input, { failOn: 'error', autoOrient: true }).flatten({ background });
    let grey = false;
    let whole = size;
    if (channels === 1 || size !== undefined) {
      const metadata = await image.metadata();
      grey = metadata.space === 'b-w' || metadata.space === 'grey16';
      const { height, width } = metadata.autoOrient;
      if (size !== undefined && needsThread([height, width], size, channels, rule, id)) {
        image = shrink(image, [height, width], size, rule, id);
        whole = undefined;
      }
    }
    if (channels === 3) image = image.toColourspace('srgb');
    else if (grey) image = image.toColourspace('b-w');
    else image = image.toColourspace('srgb').recomb([LUMA, LUMA, LUMA]).extractChannel(0);
    const decoded = await pixels(image);
    return whole === undefined ? decoded : await resizeImage(decoded, whole, rule, id);
  } catch (error) {
    if (error instanceof AlambicError) throw error;
    throw new AlambicError('DATA_UNREADABLE', `expected a readable image, got ${(error as Error).message}: ${id}`, {
      hint: 'Repair or remove the file, or let the run go on without it (`data: { loader: { onUnreadable: skip } }`).',
      at: id,
      cause: error,
    });
  }
}

/** Brings decoded pixels to a size, large ones in sharp's threads. Throws `DATA_SIZE` where the rule forbids it. */
export async function resizeImage(
  image: DecodedImage,
  size: Size,
  rule: ResizeRule,
  id: string,
): Promise<DecodedImage> {
  const ready = resizeNow(image, size, rule, id);
  if (ready !== undefined) return ready;
  const { height, width } = image;
  const sharp = await loadSharp();
  const channels = image.channels as 1 | 2 | 3 | 4;
  const pipeline = shrink(sharp(image.data, { raw: { width, height, channels } }), [height, width], size, rule, id);
  return pixels(channels === 1 ? pipeline.toColourspace('b-w') : pipeline);
}

async function pixels(image: Sharp): Promise<DecodedImage> {
  const { data, info } = await image.raw({ depth: 'uchar' }).toBuffer({ resolveWithObject: true });
  return { data, height: info.height, width: info.width, channels: info.channels };
}

function shrink(image: Sharp, from: Size, to: Size, rule: ResizeRule, id: string): Sharp {
  const { scaled, top, left } = planResize(from, to, rule, id);
  const kernel = KERNELS[rule.interpolation ?? 'bilinear'];
  return image
    .resize(scaled[1], scaled[0], { fit: 'fill', kernel })
    .extract({ left, top, width: to[1], height: to[0] });
}
