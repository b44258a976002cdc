import { AlambicError } from '../errors.ts';
import { bfloat16ToFloat32, float16ToFloat32 } from './half.ts';

/** How each element type lies in memory. `F16` and `BF16` are kept as their 16 bits, `BOOL` as bytes 0 and 1. */
export interface DtypeArrays {
  F64: Float64Array;
  F32: Float32Array;
  F16: Uint16Array;
  BF16: Uint16Array;
  I64: BigInt64Array;
  I32: Int32Array;
  I16: Int16Array;
  I8: Int8Array;
  U64: BigUint64Array;
  U32: Uint32Array;
  U16: Uint16Array;
  U8: Uint8Array;
  BOOL: Uint8Array;
}

/** Element types in the words of safetensors. */
export type Dtype = keyof DtypeArrays;
export type TensorArray = DtypeArrays[Dtype];

/** An array as it lies in a file: element type, shape (`[]` = scalar) and the elements in row-major order. */
export interface TensorData<D extends Dtype = Dtype> {
  readonly dtype: D;
  readonly shape: readonly number[];
  readonly data: DtypeArrays[D];
}

// In the order in which the format's own writer lays tensors out: wide elements first, so that each is aligned.
const ARRAYS = {
  U64: BigUint64Array,
  I64: BigInt64Array,
  F64: Float64Array,
  F32: Float32Array,
  U32: Uint32Array,
  I32: Int32Array,
  BF16: Uint16Array,
  F16: Uint16Array,
  U16: Uint16Array,
  I16: Int16Array,
  I8: Int8Array,
  U8: Uint8Array,
  BOOL: Uint8Array,
} as const satisfies Record<Dtype, unknown>;

/** Wide elements first. */
export const DTYPES = Object.keys(ARRAYS) as readonly Dtype[];

export function isDtype(name: unknown): name is Dtype {
  return typeof name === 'string' && Object.hasOwn(ARRAYS, name);
}

/** Bytes of one element. */
export function bytesPerElement(dtype: Dtype): number {
  return ARRAYS[dtype].BYTES_PER_ELEMENT;
}

/** Number of elements of a shape; 1 for `[]`. */
export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** A typed array over bytes (little-endian); a view where the alignment allows it, else a copy. */
export function arrayOver(dtype: Dtype, bytes: Uint8Array): TensorArray {
  const size = bytesPerElement(dtype);
  const aligned = bytes.byteOffset % size === 0 ? bytes : bytes.slice();
  return new ARRAYS[dtype](aligned.buffer as ArrayBuffer, aligned.byteOffset, aligned.byteLength / size);
}

/** The bytes of a typed array, as a view. */
export function bytesOf(data: TensorArray): Uint8Array {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

const NATURAL_DTYPES: readonly (readonly [new (length: number) => TensorArray, Dtype])[] = [
  [Float32Array, 'F32'],
  [Float64Array, 'F64'],
  [BigInt64Array, 'I64'],
  [BigUint64Array, 'U64'],
  [Int32Array, 'I32'],
  [Uint32Array, 'U32'],
  [Int16Array, 'I16'],
  [Uint16Array, 'U16'],
  [Int8Array, 'I8'],
  [Uint8Array, 'U8'],
];

/**
 * Wraps a typed array with its natural element type (`Float32Array` is `F32`, `Uint8Array` is `U8`).
 *
 * @param shape Default: one axis with all elements.
 * @throws AlambicError TENSOR_DATA_SHAPE where shape and number of elements do not fit.
 * @example tensorData(new Float32Array(6), [2, 3])
 */
export function tensorData(data: TensorArray, shape: readonly number[] = [data.length]): TensorData {
  const found = NATURAL_DTYPES.find(([type]) => data instanceof type);
  if (found === undefined)
    throw new AlambicError('TENSOR_DATA_DTYPE', `expected a numeric typed array, got ${data.constructor.name}`);
  const tensor = { dtype: found[1], shape, data };
  checkTensorData('the tensor', tensor);
  return tensor;
}

/** Throws TENSOR_DATA_SHAPE or TENSOR_DATA_DTYPE where the parts of a tensor do not fit each other. */
export function checkTensorData(name: string, tensor: TensorData): void {
  const { dtype, shape, data } = tensor;
  const type = ARRAYS[dtype];
  if (type === undefined || !(data instanceof type))
    throw new AlambicError(
      'TENSOR_DATA_DTYPE',
      `${name}: dtype ${dtype} needs ${type === undefined ? `one of ${DTYPES.join(', ')}` : `a ${type.name}`}, got a ${data.constructor.name}`,
    );
  if (!shape.every((size) => Number.isSafeInteger(size) && size >= 0) || elementCount(shape) !== data.length)
    throw new AlambicError(
      'TENSOR_DATA_SHAPE',
      `${name}: shape [${shape.join(',')}] needs ${elementCount(shape)} elements, got ${data.length}`,
    );
}

/**
 * The elements as float32. Exact for `F32`, `F16`, `BF16`, `BOOL`, `I8`, `U8`, `I16`, `U16`; the other types are rounded to nearest.
 * `F32` data is returned as it is, not copied.
 */
export function toFloat32({ dtype, data }: TensorData): Float32Array {
  if (data instanceof Float32Array) return data;
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) return Float32Array.from(data, Number);
  if (data instanceof Uint16Array && dtype === 'F16') return float16ToFloat32(data);
  if (data instanceof Uint16Array && dtype === 'BF16') return bfloat16ToFloat32(data);
  return Float32Array.from(data);
}
