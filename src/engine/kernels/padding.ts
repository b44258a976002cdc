import { AlambicError } from '../../errors.ts';
import type { Attr } from '../program/program.ts';
import { attr } from './execute.ts';

/**
 * Padding of height and width: a number of zeros on every side (torch's), TensorFlow's `same` and `valid`, or
 * `[[top, bottom], [left, right]]`. Torch's symmetric padding is not `same`: on even inputs at stride 2 they differ.
 */
export type Padding = number | 'same' | 'valid' | readonly [readonly [number, number], readonly [number, number]];

export type Pair = number | readonly [number, number];

export function toPair(value: Pair, what: string): readonly [number, number] {
  const pair: readonly [number, number] = typeof value === 'number' ? [value, value] : value;
  if (!pair.every((n) => Number.isInteger(n) && n >= 1)) {
    throw new AlambicError('KERNEL_OPTION', `expected ${what} to be whole numbers >= 1, got [${pair}]`);
  }
  return pair;
}

type Sides = readonly [readonly [number, number], readonly [number, number]];

function sidesOf(padding: Exclude<Padding, string>): Sides {
  if (typeof padding !== 'number') return padding;
  return [
    [padding, padding],
    [padding, padding],
  ];
}

/** What windows go over: height and width, reach of a window (dilation included) and stride. */
export interface Windows {
  readonly size: readonly number[];
  readonly window: readonly number[];
  readonly stride: readonly [number, number];
}

/** `same` or `valid` where they pad just what the numbers say: oneDNN's gradients know these and no explicit padding. */
export function namedPadding(padding: Padding, { size, window, stride }: Windows): Padding {
  if (typeof padding === 'string') return padding;
  const sides = sidesOf(padding);
  if (sides.flat().every((n) => n === 0)) return 'valid';
  const isSame = sides.every(([before, after], i) => {
    const total = Math.max((Math.ceil(size[i]! / stride[i]!) - 1) * stride[i]! + window[i]! - size[i]!, 0);
    return before === Math.floor(total / 2) && after === Math.ceil(total / 2);
  });
  return isSame ? 'same' : padding;
}

/** The padding without the zeros that no window reaches. */
export function neededBorder(
  padding: Exclude<Padding, string>,
  { size, window, stride }: Windows,
): [[number, number], [number, number]] {
  const [height, width] = sidesOf(padding).map(([before, after], i): [number, number] => {
    const steps = Math.floor((before + size[i]! + after - window[i]!) / stride[i]!);
    return [before, Math.max(0, steps * stride[i]! + window[i]! - size[i]! - before)];
  });
  return [height!, width!];
}

/** The `padding` and `explicit_paddings` attributes of NHWC ops. */
export function paddingAttrs(padding: Padding): Attr[] {
  if (padding === 'same' || padding === 'valid') return [attr.text('padding', padding.toUpperCase())];
  const [[top, bottom], [left, right]] = sidesOf(padding);
  if ([top, bottom, left, right].some((n) => !Number.isInteger(n) || n < 0)) {
    throw new AlambicError(
      'KERNEL_OPTION',
      `expected padding to be whole numbers >= 0, got [[${top},${bottom}],[${left},${right}]]`,
    );
  }
  if (top === 0 && bottom === 0 && left === 0 && right === 0) return [attr.text('padding', 'VALID')];
  return [attr.text('padding', 'EXPLICIT'), attr.int('explicit_paddings', [0, 0, top, bottom, left, right, 0, 0])];
}
