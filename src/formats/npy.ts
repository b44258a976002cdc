import { AlambicError } from '../errors.ts';
import {
  arrayOver,
  bytesOf,
  bytesPerElement,
  checkTensorData,
  type Dtype,
  elementCount,
  type TensorArray,
  type TensorData,
} from './tensor-data.ts';

const DESCRIPTORS: Readonly<Record<string, Dtype>> = {
  '<f8': 'F64',
  '<f4': 'F32',
  '<f2': 'F16',
  '<i8': 'I64',
  '<i4': 'I32',
  '<i2': 'I16',
  '|i1': 'I8',
  '<u8': 'U64',
  '<u4': 'U32',
  '<u2': 'U16',
  '|u1': 'U8',
  '|b1': 'BOOL',
};
const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];

function npyError(at: string, message: string): AlambicError {
  return new AlambicError('FORMAT_NPY', message, {
    at,
    hint: 'Save the array with numpy.save as a plain little-endian numeric array.',
  });
}

/**
 * Decodes a `.npy` file (format versions 1 to 3, little-endian numbers and booleans). An array in Fortran order is brought to row-major.
 *
 * @param at What to name in errors, usually the path.
 * @throws AlambicError FORMAT_NPY
 */
export function decodeNpy(bytes: Uint8Array, at = 'npy'): TensorData {
  if (!MAGIC.every((byte, i) => bytes[i] === byte)) throw npyError(at, 'expected the file to begin with "\\x93NUMPY"');
  const version = bytes[6] ?? 0;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const headerStart = version === 1 ? 10 : 12;
  if (version < 1 || version > 3) throw npyError(at, `expected format version 1, 2 or 3, got ${version}`);
  if (bytes.byteLength < headerStart)
    throw npyError(at, `the file ends inside the header, after ${bytes.byteLength} bytes`);
  const dataStart = headerStart + (version === 1 ? view.getUint16(8, true) : view.getUint32(8, true));
  if (bytes.byteLength < dataStart)
    throw npyError(at, `the header ends at byte ${dataStart}, the file has ${bytes.byteLength}`);
  const header = new TextDecoder().decode(bytes.subarray(headerStart, dataStart));

  const descriptor = /'descr':\s*'([^']*)'/.exec(header)?.[1];
  const fortran = /'fortran_order':\s*(True|False)/.exec(header)?.[1];
  const sizes = /'shape':\s*\(([\d\s,]*)\)/.exec(header)?.[1];
  if (descriptor === undefined || fortran === undefined || sizes === undefined)
    throw npyError(at, `expected 'descr', 'fortran_order' and 'shape' of a plain array, got ${header.trim()}`);
  const dtype = Object.hasOwn(DESCRIPTORS, descriptor) ? DESCRIPTORS[descriptor] : undefined;
  if (dtype === undefined)
    throw npyError(at, `unknown element type '${descriptor}'; known: ${Object.keys(DESCRIPTORS).join(', ')}`);
  const shape = sizes
    .split(',')
    .map((size) => size.trim())
    .filter((size) => size !== '')
    .map(Number);
  const wanted = elementCount(shape) * bytesPerElement(dtype);
  if (bytes.byteLength - dataStart !== wanted)
    throw npyError(at, `${descriptor} [${shape.join(',')}] needs ${wanted} bytes, got ${bytes.byteLength - dataStart}`);
  const data = arrayOver(dtype, bytes.subarray(dataStart));
  return { dtype, shape, data: fortran === 'True' ? toRowMajor(data, shape) : data };
}

/**
 * Encodes an array as `.npy`, format version 1, data aligned to 64 bytes.
 *
 * @throws AlambicError FORMAT_NPY for `BF16`, which numpy does not know.
 */
export function encodeNpy(tensor: TensorData): Uint8Array {
  checkTensorData('the array', tensor);
  const descriptor = Object.keys(DESCRIPTORS).find((key) => DESCRIPTORS[key] === tensor.dtype);
  if (descriptor === undefined) throw npyError('npy', `numpy has no element type for ${tensor.dtype}`);
  const sizes = tensor.shape.length === 1 ? `${tensor.shape[0]},` : tensor.shape.join(', ');
  const text = `{'descr': '${descriptor}', 'fortran_order': False, 'shape': (${sizes}), }`;
  const dataStart = Math.ceil((10 + text.length + 1) / 64) * 64;
  const bytes = new Uint8Array(dataStart + tensor.data.byteLength).fill(0x20, 0, dataStart);
  bytes.set([...MAGIC, 1, 0]);
  new DataView(bytes.buffer).setUint16(8, dataStart - 10, true);
  bytes.set(new TextEncoder().encode(text), 10);
  bytes[dataStart - 1] = 0x0a;
  bytes.set(bytesOf(tensor.data), dataStart);
  return bytes;
}

function toRowMajor(data: TensorArray, shape: readonly number[]): TensorArray {
  const out = data.slice();
  const strides = shape.map((_, axis) => elementCount(shape.slice(0, axis)));
  const index = new Array<number>(shape.length).fill(0);
  for (let i = 0; i < out.length; i++) {
    out[i] = data[index.reduce((at, value, axis) => at + value * strides[axis]!, 0)]!;
    for (let axis = shape.length - 1; axis >= 0 && ++index[axis]! === shape[axis]; axis--) index[axis] = 0;
  }
  return out;
}
