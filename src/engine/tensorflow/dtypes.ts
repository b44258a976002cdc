/** TensorFlow's data types (`TF_DataType`), by their numbers in the C API. */
export const DTYPE = {
  float32: 1,
  float64: 2,
  int32: 3,
  uint8: 4,
  int16: 5,
  int8: 6,
  string: 7,
  complex64: 8,
  int64: 9,
  bool: 10,
  bfloat16: 14,
  float16: 19,
  resource: 20,
  uint32: 22,
  uint64: 23,
} as const;

export type DtypeName = keyof typeof DTYPE;

const NAMES = new Map<number, DtypeName>(Object.entries(DTYPE).map(([name, number]) => [number, name as DtypeName]));

const BYTES: Readonly<Record<number, number>> = {
  1: 4,
  2: 8,
  3: 4,
  4: 1,
  5: 2,
  6: 1,
  8: 8,
  9: 8,
  10: 1,
  14: 2,
  19: 2,
  22: 4,
  23: 8,
};

/** Name of a dtype number, `dtype 99` where it has none here. */
export function dtypeName(dtype: number): string {
  return NAMES.get(dtype) ?? `dtype ${dtype}`;
}

/** Bytes of one element; undefined for strings and resources. */
export function bytesPerElement(dtype: number): number | undefined {
  return BYTES[dtype];
}

/** Number of elements of a shape. */
export function sizeOf(shape: readonly number[]): number {
  let size = 1;
  for (const n of shape) size *= n;
  return size;
}
