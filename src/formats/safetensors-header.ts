import { AlambicError } from '../errors.ts';
import {
  bytesPerElement,
  checkTensorData,
  DTYPES,
  type Dtype,
  elementCount,
  isDtype,
  type TensorData,
} from './tensor-data.ts';

/** The format's own limit on the header. */
export const MAX_HEADER_BYTES = 100_000_000;

/** Where a tensor lies, in bytes from the start of the file's data part. */
export interface SafetensorsEntry {
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly begin: number;
  readonly end: number;
}

export interface SafetensorsHeader {
  /** Free text by name, `{}` where the file has none. */
  readonly metadata: Readonly<Record<string, string>>;
  /** In the order of the data. */
  readonly entries: ReadonlyMap<string, SafetensorsEntry>;
  /** Bytes before the data part. */
  readonly dataStart: number;
}

export function formatError(at: string, message: string, cause?: unknown): AlambicError {
  return new AlambicError('FORMAT_SAFETENSORS', message, {
    at,
    hint: 'The file is damaged, cut off, or no safetensors file. Copy or download it again, or restore it from a backup.',
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Header length from a file's first 8 bytes; checked against the limit and the file's size. */
export function parseHeaderLength(first: Uint8Array, fileBytes: number, at: string): number {
  if (first.byteLength < 8)
    throw formatError(at, `expected at least 8 bytes for the header length, the file has ${first.byteLength}`);
  const length = new DataView(first.buffer, first.byteOffset, 8).getBigUint64(0, true);
  if (length > BigInt(MAX_HEADER_BYTES))
    throw formatError(
      at,
      `the first 8 bytes announce a header of ${length} bytes, at most ${MAX_HEADER_BYTES} are allowed`,
    );
  if (length < 2n) throw formatError(at, `the first 8 bytes announce a header of ${length} bytes, too short for {}`);
  if (8 + Number(length) > fileBytes)
    throw formatError(
      at,
      `expected a header of ${length} bytes after the first 8, the file has ${fileBytes} bytes in all`,
    );
  return Number(length);
}

/**
 * Parses and checks a whole header.
 *
 * @param dataBytes Bytes that follow the header in the file; the tensors must cover them without hole, overlap or rest.
 * @throws AlambicError FORMAT_SAFETENSORS that names the tensor and the byte positions.
 */
export function parseHeader(header: Uint8Array, dataBytes: number, at: string): SafetensorsHeader {
  let text: string;
  let json: unknown;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(header);
    if (!text.startsWith('{')) throw new SyntaxError(`it starts with ${JSON.stringify(text[0])}, not with "{"`);
    json = JSON.parse(text);
  } catch (cause) {
    const reason = cause instanceof SyntaxError ? cause.message : 'it is not UTF-8';
    throw formatError(
      at,
      `expected the header (bytes 8 to ${8 + header.byteLength}) to be a JSON object: ${reason}`,
      cause,
    );
  }
  const duplicate = findDuplicateKey(text);
  if (duplicate !== undefined) throw formatError(at, `the header has the name ${JSON.stringify(duplicate)} twice`);

  let metadata: Record<string, string> = {};
  const entries: [string, SafetensorsEntry][] = [];
  for (const [name, value] of Object.entries(json as Record<string, unknown>)) {
    if (name === '__metadata__') metadata = parseMetadata(value, at);
    else entries.push([name, parseEntry(name, value, at)]);
  }
  entries.sort(([, a], [, b]) => a.begin - b.begin || a.end - b.end);
  checkCoverage(entries, dataBytes, at);
  return { metadata, entries: new Map(entries), dataStart: 8 + header.byteLength };
}

function parseMetadata(value: unknown, at: string): Record<string, string> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw formatError(at, 'expected __metadata__ to be an object of strings');
  for (const [key, text] of Object.entries(value))
    if (typeof text !== 'string')
      throw formatError(
        at,
        `expected __metadata__ to hold strings only, ${JSON.stringify(key)} is ${JSON.stringify(text)}`,
      );
  return value as Record<string, string>;
}

function isSize(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function parseEntry(name: string, value: unknown, at: string): SafetensorsEntry {
  const where = `tensor ${JSON.stringify(name)}`;
  if (typeof value !== 'object' || value === null) throw formatError(at, `${where}: expected an object, got ${value}`);
  const { dtype, shape, data_offsets: offsets } = value as Record<string, unknown>;
  if (!isDtype(dtype))
    throw formatError(at, `${where}: unknown dtype ${JSON.stringify(dtype)}; known: ${DTYPES.join(', ')}`);
  if (!Array.isArray(shape) || !shape.every(isSize))
    throw formatError(at, `${where}: expected a shape of non-negative integers, got ${JSON.stringify(shape)}`);
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isSize))
    throw formatError(at, `${where}: expected data_offsets [begin, end], got ${JSON.stringify(offsets)}`);
  const [begin, end] = offsets as [number, number];
  if (end < begin) throw formatError(at, `${where}: data_offsets end (${end}) before they begin (${begin})`);
  const bytes = elementCount(shape) * bytesPerElement(dtype);
  if (bytes !== end - begin)
    throw formatError(
      at,
      `${where}: ${dtype} [${shape.join(',')}] needs ${bytes} bytes, data_offsets [${begin},${end}] give ${end - begin}`,
    );
  return { dtype, shape, begin, end };
}

function checkCoverage(entries: readonly [string, SafetensorsEntry][], dataBytes: number, at: string): void {
  let position = 0;
  let previous = 'the header';
  for (const [name, { begin, end }] of entries) {
    const where = `tensor ${JSON.stringify(name)}`;
    if (begin < position)
      throw formatError(at, `${where} begins at data byte ${begin}, inside ${previous} that ends at ${position}`);
    if (begin > position)
      throw formatError(
        at,
        `data bytes ${position} to ${begin}, between ${previous} and ${where}, belong to no tensor`,
      );
    if (end > dataBytes)
      throw formatError(
        at,
        `${where} ends at data byte ${end}, the file has only ${dataBytes} data bytes: it is cut off`,
      );
    position = end;
    previous = where;
  }
  if (position !== dataBytes)
    throw formatError(
      at,
      `${dataBytes - position} bytes follow after ${previous}, which ends at data byte ${position}`,
    );
}

/** JSON.parse keeps the last of two equal keys silently, which would hide a tensor; `text` must be valid JSON. */
function findDuplicateKey(text: string): string | undefined {
  // Strings (escapes included), and the marks that give structure; numbers and literals hold none of these.
  const tokens = /"(?:[^"\\]|\\.)*"|[{}[\]:]/g;
  const open: Set<string>[] = [];
  let lastString = '';
  for (const [token] of text.matchAll(tokens)) {
    if (token === '{' || token === '[') open.push(new Set());
    else if (token === '}' || token === ']') open.pop();
    else if (token === ':') {
      const key = JSON.parse(lastString) as string;
      const keys = open.at(-1)!;
      if (keys.has(key)) return key;
      keys.add(key);
    } else lastString = token;
  }
  return undefined;
}

/**
 * Header bytes (length included, padded with spaces to 8) and the tensors in data order: wide elements first, then by name,
 * so that every tensor is aligned to its element size, as the format's own writer does it.
 */
export function buildHeader(
  tensors: Readonly<Record<string, TensorData>>,
  metadata: Readonly<Record<string, string>>,
): { header: Uint8Array; order: readonly (readonly [name: string, tensor: TensorData])[]; dataBytes: number } {
  const order = Object.entries(tensors).sort(
    ([a, { dtype: x }], [b, { dtype: y }]) => DTYPES.indexOf(x) - DTYPES.indexOf(y) || (a < b ? -1 : 1),
  );
  const json: [string, unknown][] = [];
  const keys = Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1));
  if (keys.length > 0) json.push(['__metadata__', Object.fromEntries(keys)]);
  let position = 0;
  for (const [name, tensor] of order) {
    if (name === '__metadata__')
      throw new AlambicError(
        'FORMAT_SAFETENSORS',
        'a tensor cannot be named "__metadata__": the format uses that name',
      );
    checkTensorData(`tensor ${JSON.stringify(name)}`, tensor);
    const end = position + tensor.data.byteLength;
    json.push([name, { dtype: tensor.dtype, shape: tensor.shape, data_offsets: [position, end] }]);
    position = end;
  }
  // Built by hand: an object would move integer-like names to the front.
  const text = `{${json.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(',')}}`;
  const bytes = new TextEncoder().encode(text);
  const padded = Math.ceil(bytes.byteLength / 8) * 8;
  if (padded > MAX_HEADER_BYTES)
    throw new AlambicError(
      'FORMAT_SAFETENSORS',
      `the header has ${padded} bytes, at most ${MAX_HEADER_BYTES} are allowed`,
      {
        hint: 'Spread the tensors over several files, or shorten their names and metadata.',
      },
    );
  const header = new Uint8Array(8 + padded).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(padded), true);
  header.set(bytes, 8);
  return { header, order, dataBytes: position };
}
