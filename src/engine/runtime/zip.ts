import { createReadStream, createWriteStream } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createInflateRaw } from 'node:zlib';
import { crc32 } from './crc32.ts';

/** A file in a zip archive. */
export interface ZipEntry {
  readonly name: string;
  /** 0 stored, 8 deflated. */
  readonly method: number;
  readonly crc: number;
  readonly compressedBytes: number;
  readonly bytes: number;
  /** Where its local header begins. */
  readonly offset: number;
}

const END = 0x06054b50;
const END_64 = 0x06064b50;
const LOCATOR_64 = 0x07064b50;
const CENTRAL = 0x02014b50;
const LOCAL = 0x04034b50;
const FULL_16 = 0xffff;
const FULL_32 = 0xffffffff;

/** Lists the files of a zip archive by its central directory, zip64 included; folders are left out. */
export async function readZipEntries(path: string): Promise<ZipEntry[]> {
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    const { offset, bytes } = await findDirectory(file, size);
    return readDirectory(await readAt(file, offset, bytes));
  } finally {
    await file.close();
  }
}

/** Unpacks one entry into a new file and checks its size and CRC; never holds more of it than a few buffers. */
export async function unpackEntry(path: string, entry: ZipEntry, target: string, mode: number): Promise<void> {
  const file = await open(path, 'r');
  let start: number;
  try {
    // The local header repeats the name and has an extra field of its own length.
    const local = await readAt(file, entry.offset, 30);
    if (local.readUInt32LE(0) !== LOCAL) throw new Error(`damaged zip: no header of ${entry.name}`);
    start = entry.offset + 30 + local.readUInt16LE(26) + local.readUInt16LE(28);
  } finally {
    await file.close();
  }
  let bytes = 0;
  let crc = 0;
  const check = new Transform({
    transform(chunk: Buffer, _, done) {
      bytes += chunk.length;
      crc = crc32(chunk, crc);
      done(bytes > entry.bytes ? new Error(`damaged zip: ${entry.name} is longer than it says`) : null, chunk);
    },
  });
  const out = createWriteStream(target, { flags: 'wx', mode });
  if (entry.compressedBytes > 0) {
    const source = createReadStream(path, { start, end: start + entry.compressedBytes - 1, highWaterMark: 1 << 20 });
    if (entry.method === 8) await pipeline(source, createInflateRaw({ chunkSize: 1 << 18 }), check, out);
    else if (entry.method === 0) await pipeline(source, check, out);
    else throw new Error(`expected a deflated or stored ${entry.name}, got method ${entry.method}`);
  } else await pipeline(Readable.from([]), check, out);
  if (bytes !== entry.bytes || crc !== entry.crc)
    throw new Error(`damaged zip: ${entry.name} does not fit its checksum`);
}

async function findDirectory(file: FileHandle, size: number): Promise<{ offset: number; bytes: number }> {
  // The end record is followed by a comment of at most 65 535 bytes.
  const length = Math.min(size, 22 + FULL_16);
  const tail = await readAt(file, size - length, length);
  let at = tail.length - 22;
  // A comment may hold the signature too; the true record is the one whose comment ends with the file.
  while (at >= 0 && !(tail.readUInt32LE(at) === END && at + 22 + tail.readUInt16LE(at + 20) === tail.length)) at--;
  if (at < 0) throw new Error('not a zip archive: it has no end record');
  const bytes = tail.readUInt32LE(at + 12);
  const offset = tail.readUInt32LE(at + 16);
  if (bytes !== FULL_32 && offset !== FULL_32 && tail.readUInt16LE(at + 10) !== FULL_16) return { offset, bytes };
  if (at < 20 || tail.readUInt32LE(at - 20) !== LOCATOR_64) return { offset, bytes };
  const end = await readAt(file, number64(tail, at - 20 + 8), 56);
  if (end.readUInt32LE(0) !== END_64) throw new Error('damaged zip: no zip64 end record');
  return { bytes: number64(end, 40), offset: number64(end, 48) };
}

function readDirectory(directory: Buffer): ZipEntry[] {
  const entries: ZipEntry[] = [];
  for (let at = 0; at + 46 <= directory.length && directory.readUInt32LE(at) === CENTRAL; ) {
    const nameLength = directory.readUInt16LE(at + 28);
    const extraLength = directory.readUInt16LE(at + 30);
    const name = directory.toString('utf8', at + 46, at + 46 + nameLength);
    const extra = directory.subarray(at + 46 + nameLength, at + 46 + nameLength + extraLength);
    const short = {
      bytes: directory.readUInt32LE(at + 24),
      compressedBytes: directory.readUInt32LE(at + 20),
      offset: directory.readUInt32LE(at + 42),
    };
    if (!name.endsWith('/')) {
      entries.push({
        name,
        method: directory.readUInt16LE(at + 10),
        crc: directory.readUInt32LE(at + 16),
        ...widen(short, extra),
      });
    }
    at += 46 + nameLength + extraLength + directory.readUInt16LE(at + 32);
  }
  return entries;
}

/** The zip64 extra field holds, in this order, those numbers that do not fit 32 bits. */
function widen<T extends { bytes: number; compressedBytes: number; offset: number }>(short: T, extra: Buffer): T {
  const wide = { ...short };
  for (let at = 0; at + 4 <= extra.length; at += 4 + extra.readUInt16LE(at + 2)) {
    if (extra.readUInt16LE(at) !== 1) continue;
    let field = at + 4;
    for (const key of ['bytes', 'compressedBytes', 'offset'] as const) {
      if (short[key] !== FULL_32) continue;
      wide[key] = number64(extra, field);
      field += 8;
    }
  }
  return wide;
}

function number64(bytes: Buffer, at: number): number {
  const value = Number(bytes.readBigUInt64LE(at));
  if (!Number.isSafeInteger(value)) throw new Error('damaged zip: a size out of range');
  return value;
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await file.read(bytes, filled, length - filled, position + filled);
    if (bytesRead === 0) throw new Error('damaged zip: it ends early');
    filled += bytesRead;
  }
  return bytes;
}
