import { z } from 'zod';
import { AlambicError } from '../../errors.ts';
import type { Shape } from '../../nn/module.ts';

export type Size = readonly [height: number, width: number];

const side = z.int().positive();

/** A number for a square, or [height, width], in pixels. */
export const sizeSchema = z.union([side, z.tuple([side, side])]);

/** [height, width] of a size option. */
export function toSize(size: z.infer<typeof sizeSchema>): Size {
  return typeof size === 'number' ? [size, size] : size;
}

/** Height, width and channels of images [H,W,C]. Throws `PRECONDITION` for any other rank. */
export function imageShape(shape: Shape, transform: string): [height: number, width: number, channels: number] {
  const [height, width, channels] = shape;
  if (shape.length !== 3 || height === undefined || width === undefined || channels === undefined) {
    throw new AlambicError('PRECONDITION', `expected images [H,W,C] for the transform ${transform}, got [${shape}]`);
  }
  return [height, width, channels];
}

/** A shape whose images have colour, or are grey. Throws `PRECONDITION` for other numbers of channels. */
export function requireColours(shape: Shape, transform: string, allowed: readonly number[]): Shape {
  const [, , channels] = imageShape(shape, transform);
  if (!allowed.includes(channels)) {
    throw new AlambicError(
      'PRECONDITION',
      `expected images of ${allowed.join(' or ')} channel(s) for the transform ${transform}, got ${channels}`,
      { hint: 'Set the third number of `input`: 3 for colour, 1 for grey.' },
    );
  }
  return shape;
}
