import type { FileHandle } from 'node:fs/promises';
import { open } from 'node:fs/promises';
import { unknownName } from '../errors.ts';
import { FileAppender, readBytes, type Written } from './file-bytes.ts';
import {
  buildHeader,
  formatError,
  parseHeader,
  parseHeaderLength,
  type SafetensorsEntry,
  type SafetensorsHeader,
} from './safetensors-header.ts';
import { arrayOver, bytesOf, type TensorData } from './tensor-data.ts';

/** Named arrays; iteration is in the order of the file. */
export type TensorRecord = Readonly<Record<string, TensorData>>;

export interface SafetensorsContent {
  readonly metadata: Readonly<Record<string, string>>;
  readonly tensors: TensorRecord;
}

/** An open file: the header is read and checked, tensors are read on demand. */
export interface SafetensorsReader extends Pick<SafetensorsHeader, 'metadata' | 'entries'> {
  /** Throws UNKNOWN_TENSOR with the nearest known name, FORMAT_SAFETENSORS where the file got shorter since it was opened. */
  read(name: string): Promise<TensorData>;
  close(): Promise<void>;
}

export interface WriteSafetensorsOptions {
  /** Free text that travels with the tensors, for instance `{ format: 'pt' }`. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Wait until the bytes are on the disk. @default false */
  readonly sync?: boolean;
  /** Opens the file; injectable for tests. @default fs.promises.open */
  readonly open?: (path: string, flags: string) => Promise<FileHandle>;
}

/**
 * Decodes a whole file from memory. Tensors are views of `bytes` where their alignment allows it, else copies.
 *
 * @param at What to name in errors, usually the path.
 * @throws AlambicError FORMAT_SAFETENSORS for anything that does not keep to the format, saying what and where.
 */
export function decodeSafetensors(bytes: Uint8Array, at = 'safetensors'): SafetensorsContent {
  const length = parseHeaderLength(bytes.subarray(0, 8), bytes.byteLength, at);
  const header = parseHeader(bytes.subarray(8, 8 + length), bytes.byteLength - 8 - length, at);
  const tensors = [...header.entries].map(([name, entry]) => {
    const part = bytes.subarray(header.dataStart + entry.begin, header.dataStart + entry.end);
    return [name, toTensor(entry, part)] as const;
  });
  return { metadata: header.metadata, tensors: Object.fromEntries(tensors) };
}

/**
 * Opens a file for reading single tensors: 100 bytes of a 10 GB file cost 100 bytes of memory.
 *
 * @throws AlambicError FORMAT_SAFETENSORS for a damaged header or a file that is cut off.
 * @example
 * const file = await openSafetensors('model.safetensors');
 * const { shape, data } = await file.read('fc.weight');
 * await file.close();
 */
export async function openSafetensors(path: string): Promise<SafetensorsReader> {
  const handle = await open(path, 'r');
  try {
    const { size } = await handle.stat();
    const length = parseHeaderLength(await readBytes(handle, 0, Math.min(8, size)), size, path);
    const header = parseHeader(await readBytes(handle, 8, length), size - 8 - length, path);
    return {
      metadata: header.metadata,
      entries: header.entries,
      read: (name) => readTensor(handle, header, name, path),
      close: () => handle.close(),
    };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Reads a whole file; see `decodeSafetensors` for the errors. */
export async function readSafetensors(path: string): Promise<SafetensorsContent> {
  const file = await openSafetensors(path);
  try {
    const tensors: [string, TensorData][] = [];
    for (const name of file.entries.keys()) tensors.push([name, await file.read(name)]);
    return { metadata: file.metadata, tensors: Object.fromEntries(tensors) };
  } finally {
    await file.close();
  }
}

/** The bytes of a file; for small ones, `writeSafetensors` streams. */
export function encodeSafetensors(
  tensors: TensorRecord,
  { metadata = {} }: Pick<WriteSafetensorsOptions, 'metadata'> = {},
): Uint8Array {
  const { header, order, dataBytes } = buildHeader(tensors, metadata);
  const bytes = new Uint8Array(header.byteLength + dataBytes);
  bytes.set(header);
  let position = header.byteLength;
  for (const [, { data }] of order) {
    bytes.set(bytesOf(data), position);
    position += data.byteLength;
  }
  return bytes;
}

/**
 * Writes tensors to a new file (an old one is replaced), streaming; the arrays must not change meanwhile.
 * Header padded to 8 bytes, tensors sorted by element size, then name, each aligned to its element size.
 *
 * @returns Size and sha256 of the file.
 * @throws AlambicError TENSOR_DATA_SHAPE, TENSOR_DATA_DTYPE before anything is written; the file system's own errors as they are.
 * @example await writeSafetensors('m.safetensors', { 'fc.bias': { dtype: 'F32', shape: [2], data: Float32Array.of(1, 2) } })
 */
export async function writeSafetensors(
  path: string,
  tensors: TensorRecord,
  { metadata = {}, sync = false, open: openFile = open }: WriteSafetensorsOptions = {},
): Promise<Written> {
  const { header, order } = buildHeader(tensors, metadata);
  const handle = await openFile(path, 'w');
  try {
    const file = new FileAppender(handle);
    await file.append(header);
    for (const [, { data }] of order) await file.append(bytesOf(data));
    const written = await file.end();
    if (sync) await handle.sync();
    return written;
  } finally {
    await handle.close();
  }
}

function toTensor({ dtype, shape }: SafetensorsEntry, bytes: Uint8Array): TensorData {
  return { dtype, shape, data: arrayOver(dtype, bytes) };
}

async function readTensor(
  handle: FileHandle,
  header: SafetensorsHeader,
  name: string,
  path: string,
): Promise<TensorData> {
  const entry = header.entries.get(name);
  if (entry === undefined) throw unknownName('UNKNOWN_TENSOR', 'tensor', name, header.entries.keys(), { at: path });
  const bytes = await readBytes(handle, header.dataStart + entry.begin, entry.end - entry.begin);
  if (bytes.byteLength !== entry.end - entry.begin)
    throw formatError(path, `tensor ${JSON.stringify(name)}: the file ended after ${bytes.byteLength} of its bytes`);
  return toTensor(entry, bytes);
}
