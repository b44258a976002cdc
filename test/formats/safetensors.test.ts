import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AlambicError } from '../../src/errors.ts';
import {
  decodeSafetensors,
  encodeSafetensors,
  openSafetensors,
  readSafetensors,
  type TensorRecord,
  writeSafetensors,
} from '../../src/formats/safetensors.ts';
import {
  arrayOver,
  bytesOf,
  bytesPerElement,
  DTYPES,
  elementCount,
  type TensorData,
  tensorData,
  toFloat32,
} from '../../src/formats/tensor-data.ts';

const FIXTURES = fileURLToPath(new URL('../fixtures/formats/', import.meta.url));
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'alambic-safetensors-'));
});
afterAll(() => rm(folder, { recursive: true }));

/** A file from a raw header text and data bytes, to make broken ones. */
function rawFile(header: string, dataBytes = 0, headerLength?: bigint): Uint8Array {
  const text = new TextEncoder().encode(header);
  const bytes = new Uint8Array(8 + text.byteLength + dataBytes);
  new DataView(bytes.buffer).setBigUint64(0, headerLength ?? BigInt(text.byteLength), true);
  bytes.set(text, 8);
  return bytes;
}

function errorOf(run: () => unknown): AlambicError {
  try {
    run();
  } catch (error) {
    if (error instanceof AlambicError) return error;
    throw error;
  }
  throw new Error('expected an error');
}

const tensorArbitrary: fc.Arbitrary<TensorData> = fc
  .record({
    dtype: fc.constantFrom(...DTYPES),
    shape: fc.array(fc.nat({ max: 4 }), { maxLength: 4 }),
  })
  .chain(({ dtype, shape }) => {
    const bytes = elementCount(shape) * bytesPerElement(dtype);
    return fc
      .uint8Array({ minLength: bytes, maxLength: bytes })
      .map((raw) => ({ dtype, shape, data: arrayOver(dtype, raw) }));
  });
const recordArbitrary = fc.dictionary(
  fc.string({ minLength: 1, unit: 'grapheme' }).filter((name) => name !== '__metadata__'),
  tensorArbitrary,
  { maxKeys: 6 },
);
const metadataArbitrary = fc.dictionary(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }), {
  maxKeys: 3,
});

/** Compared byte for byte, so that NaN patterns count too. */
function plain(tensors: TensorRecord) {
  return Object.entries(tensors)
    .map(([name, { dtype, shape, data }]) => ({ name, dtype, shape, bytes: [...bytesOf(data)] }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

describe('a file written by the Python package', async () => {
  const expected = JSON.parse(await readFile(join(FIXTURES, 'expected.json'), 'utf8')) as {
    shapes: Record<string, number[]>;
    float32: Record<string, number[]>;
    integers: Record<string, string[]>;
    double: string[];
  };
  const file = await readSafetensors(join(FIXTURES, 'python.safetensors'));

  it('has the same names, shapes and metadata', () => {
    const shapes = Object.fromEntries(Object.entries(file.tensors).map(([name, { shape }]) => [name, shape]));
    expect(shapes).toEqual(expected.shapes);
    expect(file.metadata).toEqual({ note: 'größer' });
  });

  it('has the same float32 bits, from F32, F16 and BF16', () => {
    for (const [name, words] of Object.entries(expected.float32)) {
      const values = toFloat32(file.tensors[name]!);
      expect([name, ...new Uint32Array(values.buffer, values.byteOffset, values.length)]).toEqual([name, ...words]);
    }
    expect(Object.keys(expected.float32)).toHaveLength(6);
  });

  it('has the same integers, booleans and doubles', () => {
    for (const [name, values] of Object.entries(expected.integers))
      expect([name, ...file.tensors[name]!.data.toString().split(',')]).toEqual([name, ...values]);
    expect(file.tensors['double']!.data).toEqual(Float64Array.of(0.1, -1e300, Number.POSITIVE_INFINITY));
  });

  it('is written again byte for byte as Python wrote it', async () => {
    expect(Buffer.from(encodeSafetensors(file.tensors, { metadata: file.metadata }))).toEqual(
      await readFile(join(FIXTURES, 'python.safetensors')),
    );
  });
});

describe('round trips', () => {
  it('decode(encode(x)) = x for every dtype, shape, name and metadata', () => {
    fc.assert(
      fc.property(recordArbitrary, metadataArbitrary, (tensors, metadata) => {
        const back = decodeSafetensors(encodeSafetensors(tensors, { metadata }));
        expect(plain(back.tensors)).toEqual(plain(tensors));
        expect({ ...back.metadata }).toEqual({ ...metadata });
      }),
      { numRuns: 150 },
    );
  });

  it('a streamed file = the encoded bytes, and says its size and sha256', async () => {
    await fc.assert(
      fc.asyncProperty(recordArbitrary, async (tensors) => {
        const path = join(folder, 'stream.safetensors');
        const written = await writeSafetensors(path, tensors, { sync: true });
        const bytes = await readFile(path);
        expect(bytes).toEqual(Buffer.from(encodeSafetensors(tensors)));
        expect(written).toEqual({ bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') });
        expect(plain((await readSafetensors(path)).tensors)).toEqual(plain(tensors));
      }),
      { numRuns: 30 },
    );
  });

  it('streams tensors larger than its buffer', async () => {
    const data = Float32Array.from({ length: 2_500_000 }, (_, i) => i);
    const path = join(folder, 'large.safetensors');
    await writeSafetensors(path, {
      flag: tensorData(Uint8Array.of(1)),
      large: tensorData(data),
      long: tensorData(data),
    });
    const { tensors } = await readSafetensors(path);
    expect(Buffer.compare(bytesOf(tensors['large']!.data), bytesOf(data))).toBe(0);
    expect(Buffer.compare(bytesOf(tensors['long']!.data), bytesOf(data))).toBe(0);
    expect(tensors['flag']!.data).toEqual(Uint8Array.of(1));
  });

  it('pads the header to 8 and aligns each tensor to its element size', () => {
    fc.assert(
      fc.property(recordArbitrary, (tensors) => {
        const bytes = encodeSafetensors(tensors);
        const length = Number(new DataView(bytes.buffer).getBigUint64(0, true));
        expect(length % 8).toBe(0);
        const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length))) as Record<
          string,
          { dtype: 'F32'; data_offsets: [number, number] }
        >;
        for (const { dtype, data_offsets } of Object.values(header))
          expect(data_offsets[0] % bytesPerElement(dtype)).toBe(0);
      }),
      { numRuns: 50 },
    );
  });

  it('reads tensors that lie unaligned in the file', () => {
    const bytes = rawFile(
      '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}}',
      5,
    );
    bytes.set(bytesOf(Float32Array.of(2.5)), bytes.length - 4);
    expect(decodeSafetensors(bytes).tensors['b']!.data).toEqual(Float32Array.of(2.5));
  });
});

describe('reading single tensors', () => {
  it('reads one by name and knows its shape before', async () => {
    const file = await openSafetensors(join(FIXTURES, 'python.safetensors'));
    expect(file.entries.get('int32')).toMatchObject({ dtype: 'I32', shape: [2, 2] });
    expect((await file.read('int32')).data).toEqual(Int32Array.of(1, -2, 2147483647, -2147483648));
    await expect(file.read('int23')).rejects.toMatchObject({
      code: 'UNKNOWN_TENSOR',
      message: 'unknown tensor "int23": did you mean "int32"?',
    });
    await file.close();
  });

  it('says when the file got shorter since it was opened', async () => {
    const path = join(folder, 'shrinking.safetensors');
    await writeSafetensors(path, { a: tensorData(new Float32Array(1000)) });
    const file = await openSafetensors(path);
    await truncate(path, 500);
    await expect(file.read('a')).rejects.toMatchObject({ code: 'FORMAT_SAFETENSORS', at: path });
    await file.close();
  });
});

describe('bad input', () => {
  const f32 = (begin: number, end: number, shape = [(end - begin) / 4]) =>
    JSON.stringify({ dtype: 'F32', shape, data_offsets: [begin, end] });
  const cases: [what: string, bytes: Uint8Array, message: RegExp][] = [
    ['an empty file', new Uint8Array(0), /at least 8 bytes for the header length, the file has 0/],
    ['a header beyond the limit', rawFile('{}', 0, 100_000_001n), /100000001 bytes, at most 100000000/],
    ['a header of 2^63 bytes', rawFile('{}', 0, 1n << 63n), /9223372036854775808 bytes/],
    ['a header longer than the file', rawFile('{}', 0, 50n), /header of 50 bytes .* has 10 bytes in all/],
    ['an empty header', rawFile('', 0), /too short/],
    ['no JSON', rawFile('{"a":'), /bytes 8 to 13\) to be a JSON object/],
    ['leading space', rawFile(' {}'), /starts with " ", not with "\{"/],
    ['a list', rawFile('[]'), /not with "\{"/],
    ['no UTF-8', rawFile('{"a').fill(0xff, 9), /not UTF-8/],
    [
      'an unknown dtype',
      rawFile('{"a":{"dtype":"F33","shape":[],"data_offsets":[0,4]}}', 4),
      /"a": unknown dtype "F33"/,
    ],
    [
      'a dtype from the prototype',
      rawFile('{"a":{"dtype":"toString","shape":[],"data_offsets":[0,4]}}', 4),
      /unknown dtype/,
    ],
    ['an entry that is null', rawFile('{"a":null}'), /"a": expected an object, got null/],
    [
      'a negative size',
      rawFile(`{"a":${f32(0, 4, [-1])}}`, 4),
      /"a": expected a shape of non-negative integers, got \[-1\]/,
    ],
    ['a fractional size', rawFile(`{"a":${f32(0, 4, [0.5, 2])}}`, 4), /non-negative integers/],
    ['a missing shape', rawFile('{"a":{"dtype":"F32","data_offsets":[0,4]}}', 4), /expected a shape .* got undefined/],
    ['offsets the wrong way round', rawFile(`{"a":${f32(8, 4, [])}}`, 8), /end \(4\) before they begin \(8\)/],
    [
      'one offset',
      rawFile('{"a":{"dtype":"F32","shape":[],"data_offsets":[0]}}', 4),
      /expected data_offsets \[begin, end\], got \[0\]/,
    ],
    [
      'shape x size',
      rawFile(`{"a":${f32(0, 8, [3])}}`, 8),
      /"a": F32 \[3\] needs 12 bytes, data_offsets \[0,8\] give 8/,
    ],
    [
      'a shape that overflows',
      rawFile(`{"a":${f32(0, 0, [2 ** 40, 2 ** 40])}}`),
      /"a": F32 .* needs 4\.8.*e\+24 bytes/,
    ],
    [
      'an overlap',
      rawFile(`{"a":${f32(0, 8)},"b":${f32(4, 12)}}`, 12),
      /"b" begins at data byte 4, inside tensor "a" that ends at 8/,
    ],
    [
      'a hole',
      rawFile(`{"a":${f32(0, 4)},"b":${f32(8, 12)}}`, 12),
      /data bytes 4 to 8, between tensor "a" and tensor "b"/,
    ],
    ['a hole at the start', rawFile(`{"a":${f32(4, 8)}}`, 8), /data bytes 0 to 4, between the header and tensor "a"/],
    ['a cut file', rawFile(`{"a":${f32(0, 8)}}`, 7), /"a" ends at data byte 8, the file has only 7 data bytes/],
    ['bytes after the last tensor', rawFile(`{"a":${f32(0, 4)}}`, 6), /2 bytes follow after tensor "a"/],
    ['data without tensors', rawFile('{}', 3), /3 bytes follow after the header/],
    ['a name twice', rawFile(`{"a":${f32(0, 4)},"a":${f32(4, 8)}}`, 8), /has the name "a" twice/],
    ['a name twice, once escaped', rawFile(`{"a":${f32(0, 4)},"\\u0061":${f32(4, 8)}}`, 8), /"a" twice/],
    ['metadata that is a list', rawFile('{"__metadata__":[]}'), /__metadata__ to be an object of strings/],
    ['metadata with a number', rawFile('{"__metadata__":{"epoch":3}}'), /strings only, "epoch" is 3/],
  ];
  it.each(cases)('%s', (_, bytes, message) => {
    const error = errorOf(() => decodeSafetensors(bytes, 'm.safetensors'));
    expect(error).toMatchObject({ code: 'FORMAT_SAFETENSORS', at: 'm.safetensors' });
    expect(error.message).toMatch(message);
    expect(error.hint).toBeDefined();
  });

  it('the same from the file as from memory', async () => {
    const path = join(folder, 'broken.safetensors');
    for (const [, bytes, message] of cases) {
      await writeFile(path, bytes);
      await expect(openSafetensors(path)).rejects.toThrow(message);
    }
  });

  it('never accepts a file that was cut anywhere', async () => {
    const whole = await readFile(join(FIXTURES, 'python.safetensors'));
    for (let length = 0; length < whole.length; length++)
      expect(errorOf(() => decodeSafetensors(whole.subarray(0, length))).code).toBe('FORMAT_SAFETENSORS');
  });

  it('survives any flipped header byte: an error of ours or a consistent file', async () => {
    const whole = await readFile(join(FIXTURES, 'python.safetensors'));
    const headerEnd = 8 + Number(whole.readBigUInt64LE(0));
    fc.assert(
      fc.property(fc.nat(headerEnd - 1), fc.integer({ min: 1, max: 255 }), (position, flip) => {
        const bytes = Uint8Array.from(whole);
        bytes[position]! ^= flip;
        try {
          const { tensors } = decodeSafetensors(bytes);
          for (const tensor of Object.values(tensors)) expect(elementCount(tensor.shape)).toBe(tensor.data.length);
        } catch (error) {
          expect(error).toMatchObject({ code: 'FORMAT_SAFETENSORS' });
        }
      }),
      { numRuns: 500 },
    );
  });

  it('refuses to write what does not fit together, and touches no file', async () => {
    const path = join(folder, 'kept.safetensors');
    await writeFile(path, 'kept');
    const wrong: TensorRecord = { a: { dtype: 'F32', shape: [3], data: new Float32Array(2) } };
    await expect(writeSafetensors(path, wrong)).rejects.toMatchObject({
      code: 'TENSOR_DATA_SHAPE',
      message: 'tensor "a": shape [3] needs 3 elements, got 2',
    });
    const type: TensorRecord = { a: { dtype: 'F32', shape: [2], data: new Int32Array(2) } };
    await expect(writeSafetensors(path, type)).rejects.toMatchObject({ code: 'TENSOR_DATA_DTYPE' });
    expect(() => encodeSafetensors({ ['__metadata__']: tensorData(new Float32Array(1)) })).toThrow(/uses that name/);
    expect(await readFile(path, 'utf8')).toBe('kept');
  });
});
