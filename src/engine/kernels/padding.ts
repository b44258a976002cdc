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

/** The `padding` and `explicit_paddings` attributes of NHWC ops. */
export function paddingAttrs(padding: Padding): Attr[] {
  if (padding === 'same' || padding === 'valid') return [attr.text('padding', padding.toUpperCase())];
  const [[top, bottom], [left, right]] =
    typeof padding === 'number'
      ? ([
          [padding, padding],
          [padding, padding],
        ] as const)
      : padding;
  if ([top, bottom, left, right].some((n) => !Number.isInteger(n) || n < 0)) {
    throw new AlambicError(
      'KERNEL_OPTION',
      `expected padding to be whole numbers >= 0, got [[${top},${bottom}],[${left},${right}]]`,
    );
  }
  if (top === 0 && bottom === 0 && left === 0 && right === 0) return [attr.text('padding', 'VALID')];
  return [attr.text('padding', 'EXPLICIT'), attr.int('explicit_paddings', [0, 0, top, bottom, left, right, 0, 0])];
}
