import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type IdxArray, parseIdx, readIdxFile, serializeIdx } from '../../src/formats/idx.ts';

const bytes = (...values: number[]) => Uint8Array.from(values);

describe('idx', () => {
  it('reads the bytes of the published description', () => {
    const file = bytes(0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2, 3, 250, 251, 252);
    expect(parseIdx(file)).toEqual({ type: 'uint8', shape: [2, 1, 3], data: bytes(1, 2, 3, 250, 251, 252) });
    expect(parseIdx(gzipSync(file)).data).toEqual(bytes(1, 2, 3, 250, 251, 252));
  });

  it('reads big-endian integers and floats', () => {
    expect(parseIdx(bytes(0, 0, 0x0b, 1, 0, 0, 0, 2, 0x01, 0x02, 0xff, 0xfe)).data).toEqual(Int16Array.of(258, -2));
    expect(parseIdx(bytes(0, 0, 0x0c, 1, 0, 0, 0, 1, 0, 1, 0, 0)).data).toEqual(Int32Array.of(65536));
    expect(parseIdx(bytes(0, 0, 0x0d, 1, 0, 0, 0, 1, 0x3f, 0x80, 0, 0)).data).toEqual(Float32Array.of(1));
    expect(parseIdx(bytes(0, 0, 0x0e, 1, 0, 0, 0, 1, 0xc0, 0, 0, 0, 0, 0, 0, 0)).data).toEqual(Float64Array.of(-2));
    expect(parseIdx(bytes(0, 0, 0x09, 1, 0, 0, 0, 1, 0xff)).data).toEqual(Int8Array.of(-1));
  });

  it('writes what it reads, for every type', () => {
    const make = {
      uint8: Uint8Array,
      int8: Int8Array,
      int16: Int16Array,
      int32: Int32Array,
      float32: Float32Array,
      float64: Float64Array,
    } as const;
    const types = Object.keys(make) as (keyof typeof make)[];
    fc.assert(
      fc.property(
        fc.constantFrom(...types),
        fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 }),
        fc.integer(),
        (type, shape, start) => {
          const count = shape.reduce((a, b) => a * b, 1);
          const array: IdxArray = {
            type,
            shape,
            data: new make[type](Array.from({ length: count }, (_, i) => start + i * 7)),
          };
          expect(parseIdx(serializeIdx(array))).toEqual(array);
        },
      ),
    );
  });

  it('names what is wrong with a file', async () => {
    const good = bytes(0, 0, 8, 1, 0, 0, 0, 4, 1, 2, 3, 4);
    const failing: [Uint8Array, RegExp][] = [
      [bytes(0, 0), /at least 4 bytes/],
      [bytes(0x50, 0x4b, 3, 4, 0), /begin with 00 00, got 50 4b 03 04/],
      [bytes(0, 0, 7, 1, 0, 0, 0, 0), /type of 08/],
      [bytes(0, 0, 8, 3, 0, 0, 0, 1), /3 sizes in 16 bytes/],
      [good.subarray(0, 10), /expected 12 bytes for uint8 \[4\], got 10/],
      [Uint8Array.from([...good, 0]), /expected 12 bytes for uint8 \[4\], got 13/],
      [gzipSync(good).subarray(0, 15), /whole gzip file/],
    ];
    for (const [file, message] of failing) {
      expect(() => parseIdx(file, 'a.idx')).toThrow(expect.objectContaining({ code: 'FORMAT_IDX', at: 'a.idx' }));
      expect(() => parseIdx(file)).toThrow(message);
    }
    const folder = await mkdtemp(join(tmpdir(), 'alambic-idx-'));
    const path = join(folder, 'cut.gz');
    await writeFile(path, gzipSync(good).subarray(0, 15));
    await expect(readIdxFile(path)).rejects.toMatchObject({ code: 'FORMAT_IDX', at: path });
    await expect(readIdxFile(join(folder, 'none'))).rejects.toMatchObject({ code: 'DATA_MISSING' });
  });
});
