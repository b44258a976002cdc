import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gunzip, gunzipSync } from 'node:zlib';
import { AlambicError } from '../errors.ts';

/** The IDX format of MNIST: two zero bytes, a type byte, the rank, big-endian uint32 sizes, then the elements, big-endian. */
const TYPES = {
  uint8: { code: 0x08, bytes: 1 },
  int8: { code: 0x09, bytes: 1 },
  int16: { code: 0x0b, bytes: 2 },
  int32: { code: 0x0c, bytes: 4 },
  float32: { code: 0x0d, bytes: 4 },
  float64: { code: 0x0e, bytes: 8 },
} as const;

export type IdxType = keyof typeof TYPES;
export type IdxData = Uint8Array | Int8Array | Int16Array | Int32Array | Float32Array | Float64Array;

export interface IdxArray {
  readonly type: IdxType;
  readonly shape: readonly number[];
  /** Row-major, `shape` elements, in the machine's byte order. */
  readonly data: IdxData;
}

const gunzipAsync = promisify(gunzip);

function fail(at: string | undefined, message: string, cause?: unknown): never {
  throw new AlambicError('FORMAT_IDX', message, {
    hint: 'An IDX file begins with the bytes 00 00, a type (08 for uint8) and a rank; fetch the file again if it was cut short.',
    ...(at === undefined ? {} : { at }),
    ...(cause === undefined ? {} : { cause }),
  });
}

function isGzip(bytes: Uint8Array): boolean {
  return bytes[0] === 0x1f && bytes[1] === 0x8b;
}

/**
 * Reads an IDX array from bytes, plain or gzip (told apart by the first two bytes).
 *
 * Throws `FORMAT_IDX` where the magic number is wrong or the file is shorter or longer than its header says.
 *
 * @example
 * const { shape, data } = parseIdx(await readFile('t10k-images-idx3-ubyte.gz')); // [10000, 28, 28]
 */
export function parseIdx(bytes: Uint8Array, at?: string): IdxArray {
  if (isGzip(bytes)) {
    try {
      return parsePlain(gunzipSync(bytes), at);
    } catch (error) {
      if (error instanceof AlambicError) throw error;
      return fail(at, `expected a whole gzip file, got ${(error as Error).message}`, error);
    }
  }
  return parsePlain(bytes, at);
}

/** Reads an IDX file; gzip is unpacked off the main thread. Throws `FORMAT_IDX`, or `DATA_MISSING` where there is no such file. */
export async function readIdxFile(path: string): Promise<IdxArray> {
  let bytes: Uint8Array;
  try {
    bytes = await readFile(path);
  } catch (error) {
    throw new AlambicError('DATA_MISSING', `expected an IDX file at ${path}, got ${(error as Error).message}`, {
      hint: 'Check the path; relative paths start at the folder of the recipe.',
      cause: error,
    });
  }
  if (isGzip(bytes)) {
    try {
      bytes = await gunzipAsync(bytes);
    } catch (error) {
      return fail(path, `expected a whole gzip file, got ${(error as Error).message}`, error);
    }
  }
  return parsePlain(bytes, path);
}

function parsePlain(bytes: Uint8Array, at: string | undefined): IdxArray {
  if (bytes.length < 4) fail(at, `expected an IDX header of at least 4 bytes, got ${bytes.length} bytes`);
  const magic = [...bytes.subarray(0, 4)].map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
  if (bytes[0] !== 0 || bytes[1] !== 0) fail(at, `expected an IDX file to begin with 00 00, got ${magic}`);
  const entry = Object.entries(TYPES).find(([, { code }]) => code === bytes[2]);
  if (entry === undefined) {
    fail(at, `expected an IDX type of 08, 09, 0b, 0c, 0d or 0e in the third byte, got ${magic}`);
  }
  const type = entry[0] as IdxType;
  const width = entry[1].bytes;
  const rank = bytes[3]!;
  const start = 4 + 4 * rank;
  if (bytes.length < start) fail(at, `expected ${rank} sizes in ${start} bytes of header, got ${bytes.length} bytes`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const shape = Array.from({ length: rank }, (_, i) => view.getUint32(4 + 4 * i));
  const count = shape.reduce((product, size) => product * size, 1);
  const wanted = start + count * width;
  if (bytes.length !== wanted) {
    fail(at, `expected ${wanted} bytes for ${type} [${shape.join(', ')}], got ${bytes.length}`);
  }
  return { type, shape, data: decode(type, view, start, count) };
}

function decode(type: IdxType, view: DataView, start: number, count: number): IdxData {
  const body = view.buffer.slice(view.byteOffset + start, view.byteOffset + start + count * TYPES[type].bytes);
  const source = new DataView(body);
  switch (type) {
    case 'uint8':
      return new Uint8Array(body);
    case 'int8':
      return new Int8Array(body);
    case 'int16':
      return Int16Array.from({ length: count }, (_, i) => source.getInt16(2 * i));
    case 'int32':
      return Int32Array.from({ length: count }, (_, i) => source.getInt32(4 * i));
    case 'float32':
      return Float32Array.from({ length: count }, (_, i) => source.getFloat32(4 * i));
    case 'float64':
      return Float64Array.from({ length: count }, (_, i) => source.getFloat64(8 * i));
  }
}

/** The bytes of an IDX file (not compressed). Throws `FORMAT_IDX` where the data does not fill the shape. */
export function serializeIdx(array: IdxArray): Uint8Array {
  const { type, shape, data } = array;
  const count = shape.reduce((product, size) => product * size, 1);
  if (count !== data.length || shape.length > 255) {
    fail(undefined, `expected ${count} elements for the shape [${shape.join(', ')}], got ${data.length}`);
  }
  const { code, bytes: width } = TYPES[type];
  const start = 4 + 4 * shape.length;
  const out = new Uint8Array(start + count * width);
  const view = new DataView(out.buffer);
  out[2] = code;
  out[3] = shape.length;
  for (const [i, size] of shape.entries()) view.setUint32(4 + 4 * i, size);
  if (width === 1) {
    out.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), start);
    return out;
  }
  for (let i = 0; i < count; i++) {
    const at = start + i * width;
    if (type === 'int16') view.setInt16(at, data[i]!);
    else if (type === 'int32') view.setInt32(at, data[i]!);
    else if (type === 'float32') view.setFloat32(at, data[i]!);
    else view.setFloat64(at, data[i]!);
  }
  return out;
}
