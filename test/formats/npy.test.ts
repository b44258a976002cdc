import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeNpy, encodeNpy } from '../../src/formats/npy.ts';
import { bytesOf, tensorData, toFloat32 } from '../../src/formats/tensor-data.ts';

const read = (name: string) => readFile(new URL(`../fixtures/formats/${name}.npy`, import.meta.url));

describe('files written by numpy', () => {
  it('reads float32', async () => {
    const { dtype, shape, data } = decodeNpy(await read('float32'));
    expect([dtype, shape]).toEqual(['F32', [2, 3, 4]]);
    expect(data).toEqual(Float32Array.from({ length: 24 }, (_, i) => Math.fround(i) / Math.fround(7)));
  });

  it('brings Fortran order to row-major', async () => {
    expect(decodeNpy(await read('fortran'))).toEqual({
      dtype: 'I32',
      shape: [2, 3, 4],
      data: Int32Array.from({ length: 24 }, (_, i) => i),
    });
  });

  it('reads scalars, booleans and halves', async () => {
    expect(decodeNpy(await read('scalar'))).toEqual({ dtype: 'F64', shape: [], data: Float64Array.of(2.5) });
    expect(decodeNpy(await read('bool')).data).toEqual(Uint8Array.of(1, 0, 1, 1));
    expect(toFloat32(decodeNpy(await read('half')))).toEqual(Float32Array.of(1.5, -2.25));
  });

  it('writes what numpy wrote, byte for byte', async () => {
    for (const name of ['float32', 'scalar', 'bool', 'half']) {
      const bytes = await read(name);
      expect(Buffer.from(encodeNpy(decodeNpy(bytes)))).toEqual(bytes);
    }
  });

  it('refuses what it cannot hold', async () => {
    for (const [name, message] of [
      ['big-endian', /unknown element type '>i4'/],
      ['strings', /unknown element type '<U2'/],
    ] as const) {
      const bytes = await read(name);
      expect(() => decodeNpy(bytes)).toThrow(message);
    }
  });
});

describe('round trips and bad input', () => {
  it('gives back every array', () => {
    fc.assert(
      fc.property(fc.float32Array({ maxLength: 60 }), (data) => {
        const back = decodeNpy(encodeNpy(tensorData(data, [1, data.length])));
        expect(back.shape).toEqual([1, data.length]);
        expect(Buffer.compare(bytesOf(back.data), bytesOf(data))).toBe(0);
      }),
    );
  });

  it('names what is wrong', async () => {
    const bytes = await read('float32');
    expect(() => decodeNpy(Uint8Array.of(1, 2, 3))).toThrow(/begin with/);
    expect(() => decodeNpy(bytes.subarray(0, 60))).toThrow(/header ends at byte 128, the file has 60/);
    expect(() => decodeNpy(bytes.subarray(0, 9))).toThrow(/ends inside the header/);
    expect(() => decodeNpy(bytes.subarray(0, 200), 'a.npy')).toThrow(/<f4 \[2,3,4\] needs 96 bytes, got 72/);
    expect(() => encodeNpy({ dtype: 'BF16', shape: [1], data: new Uint16Array(1) })).toThrow(
      /no element type for BF16/,
    );
  });
});
