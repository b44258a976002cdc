import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bfloat16ToFloat32, float16ToFloat32, float32ToBfloat16, float32ToFloat16 } from '../../src/formats/half.ts';

const expected = JSON.parse(
  await readFile(new URL('../fixtures/formats/expected.json', import.meta.url), 'utf8'),
) as Record<'bits' | 'halfAsFloat32' | 'brainAsFloat32' | 'singles' | 'singlesAsHalf' | 'singlesAsBrain', number[]>;
const words = (values: Float32Array) => [...new Uint32Array(values.buffer, values.byteOffset, values.length)];
const singles = new Float32Array(Uint32Array.from(expected.singles).buffer);
const every = Uint16Array.from({ length: 65536 }, (_, i) => i);

/** By definition: sign x 2^(exponent - 15) x (1 + fraction / 1024), in float64. */
function halfByDefinition(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return exponent === 0 ? sign * 2 ** -24 * fraction : sign * 2 ** (exponent - 15) * (1 + fraction / 1024);
}

describe('float16', () => {
  it('converts every bit pattern as the standard defines it', () => {
    const values = float16ToFloat32(every);
    for (const bits of every)
      if (!Object.is(values[bits], halfByDefinition(bits)))
        expect.fail(`0x${bits.toString(16)} gave ${values[bits]}, expected ${halfByDefinition(bits)}`);
  });

  it('equals torch bit for bit, both ways', () => {
    // NaN payloads aside: torch itself gives different ones in its vector and scalar loops.
    const oneNaN = (word: number) => ((word & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : word);
    const values = words(float16ToFloat32(Uint16Array.from(expected.bits)));
    expect(values.map(oneNaN)).toEqual(expected.halfAsFloat32.map(oneNaN));
    expect([...float32ToFloat16(singles)]).toEqual(expected.singlesAsHalf);
  });

  it('gives every half back', () => {
    const back = float32ToFloat16(float16ToFloat32(every));
    for (const bits of every)
      if (back[bits] !== bits) {
        expect((bits & 0x7c00) === 0x7c00 && (bits & 0x3ff) !== 0, `0x${bits.toString(16)} is no NaN`).toBe(true);
        expect(halfByDefinition(back[bits]!)).toBeNaN();
      }
  });

  it('rounds to the nearest half', () => {
    fc.assert(
      fc.property(fc.float({ min: -65504, max: 65504, noNaN: true }), (value) => {
        const [bits] = float32ToFloat16(Float32Array.of(value));
        const error = Math.abs(halfByDefinition(bits!) - value);
        const neighbours = [bits! - 1, bits! + 1].map(halfByDefinition).filter(Number.isFinite);
        for (const neighbour of neighbours) expect(error).toBeLessThanOrEqual(Math.abs(neighbour - value));
      }),
    );
  });
});

describe('bfloat16', () => {
  it('equals torch bit for bit, both ways', () => {
    expect(words(bfloat16ToFloat32(Uint16Array.from(expected.bits)))).toEqual(expected.brainAsFloat32);
    expect([...float32ToBfloat16(singles)]).toEqual(expected.singlesAsBrain);
  });

  it('keeps a NaN a NaN, whatever its payload', () => {
    const nan = new Float32Array(Uint32Array.of(0x7f800001, 0xff800001, 0x7fffffff).buffer);
    expect([...bfloat16ToFloat32(float32ToBfloat16(nan))]).toEqual([Number.NaN, Number.NaN, Number.NaN]);
    expect([...float16ToFloat32(float32ToFloat16(nan))]).toEqual([Number.NaN, Number.NaN, Number.NaN]);
  });
});
