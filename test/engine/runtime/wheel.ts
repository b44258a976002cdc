import { createHash } from 'node:crypto';
import { deflateRawSync } from 'node:zlib';
import type { RuntimeContext } from '../../../src/engine/runtime/context.ts';
import { crc32ByTable } from '../../../src/engine/runtime/crc32.ts';
import type { Bundle, Wheel } from '../../../src/engine/runtime/manifest.ts';
import type { Machine } from '../../../src/engine/runtime/platform.ts';

export const LINUX: Machine = { os: 'linux', cpu: 'x64', glibc: '2.36', avx: true };

export interface ZipFile {
  readonly name: string;
  readonly bytes: Buffer;
  readonly stored?: boolean;
  /** Write sizes and offset into a zip64 field, as archives above 4 GB have it. */
  readonly wide?: boolean;
  /** A wrong CRC. */
  readonly damaged?: boolean;
}

/** A zip archive, written out by the format's specification. */
export function makeZip(files: readonly ZipFile[], options: { comment?: string; wide?: boolean } = {}): Buffer {
  const locals: Buffer[] = [];
  const central: Buffer[] = [];
  let offset = 0;
  for (const { name, bytes, stored = false, wide = false, damaged = false } of files) {
    const data = stored ? bytes : deflateRawSync(bytes);
    const crc = crc32ByTable(bytes) ^ (damaged ? 1 : 0);
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt16LE(stored ? 0 : 8, 8);
    local.writeUInt32LE(crc >>> 0, 14);
    local.writeUInt32LE(data.length, 18);
    local.writeUInt32LE(bytes.length, 22);
    local.writeUInt16LE(Buffer.byteLength(name), 26);
    // The local extra field has another length than the central one, as zip tools write it.
    local.writeUInt16LE(5, 28);
    const extra = Buffer.alloc(wide ? 28 : 0);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt16LE(stored ? 0 : 8, 10);
    entry.writeUInt32LE(crc >>> 0, 16);
    entry.writeUInt32LE(wide ? 0xffffffff : data.length, 20);
    entry.writeUInt32LE(wide ? 0xffffffff : bytes.length, 24);
    entry.writeUInt16LE(Buffer.byteLength(name), 28);
    entry.writeUInt16LE(extra.length, 30);
    entry.writeUInt32LE(wide ? 0xffffffff : offset, 42);
    if (wide) {
      extra.writeUInt16LE(1, 0);
      extra.writeUInt16LE(24, 2);
      extra.writeBigUInt64LE(BigInt(bytes.length), 4);
      extra.writeBigUInt64LE(BigInt(data.length), 12);
      extra.writeBigUInt64LE(BigInt(offset), 20);
    }
    const parts = [local, Buffer.from(name), Buffer.alloc(5), data];
    locals.push(...parts);
    central.push(entry, Buffer.from(name), extra);
    offset += parts.reduce((sum, part) => sum + part.length, 0);
  }
  const directory = Buffer.concat(central);
  const comment = Buffer.from(options.comment ?? '');
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(options.wide ? 0xffff : files.length, 8);
  end.writeUInt16LE(options.wide ? 0xffff : files.length, 10);
  end.writeUInt32LE(options.wide ? 0xffffffff : directory.length, 12);
  end.writeUInt32LE(options.wide ? 0xffffffff : offset, 16);
  end.writeUInt16LE(comment.length, 20);
  const wideEnd = Buffer.alloc(options.wide ? 76 : 0);
  if (options.wide) {
    wideEnd.writeUInt32LE(0x06064b50, 0);
    wideEnd.writeBigUInt64LE(44n, 4);
    wideEnd.writeBigUInt64LE(BigInt(files.length), 24);
    wideEnd.writeBigUInt64LE(BigInt(files.length), 32);
    wideEnd.writeBigUInt64LE(BigInt(directory.length), 40);
    wideEnd.writeBigUInt64LE(BigInt(offset), 48);
    wideEnd.writeUInt32LE(0x07064b50, 56);
    wideEnd.writeBigUInt64LE(BigInt(offset + directory.length), 64);
    wideEnd.writeUInt32LE(1, 72);
  }
  return Buffer.concat([...locals, directory, wideEnd, end, comment]);
}

/** Bytes that look like an ELF library and do not compress, so that a download has a length to be cut at. */
export function fakeLibrary(bytes: number, machine = 62): Buffer {
  const library = Buffer.alloc(bytes);
  let value = bytes;
  for (let i = 0; i < bytes; i++) {
    value = (Math.imul(value, 1664525) + 1013904223) >>> 0;
    library[i] = value >>> 24;
  }
  library.writeUInt32BE(0x7f454c46, 0);
  library.writeUInt16LE(machine, 18);
  return library;
}

export const FRAMEWORK = fakeLibrary(60_000);
export const CC = fakeLibrary(400_000);

const PROJECT = 'tensorflow-cpu';
const FILE = 'tensorflow_cpu-2.21.0-cp311-cp311-manylinux_2_27_x86_64.whl';

/** A small wheel with the two libraries and much that is not wanted. */
export function fakeWheel(): Buffer {
  return makeZip([
    { name: 'tensorflow/__init__.py', bytes: Buffer.from('raise ImportError') },
    { name: 'tensorflow/libtensorflow_framework.so.2', bytes: FRAMEWORK },
    { name: 'tensorflow/libtensorflow_cc.so.2', bytes: CC, wide: true },
    { name: 'tensorflow/THIRD_PARTY_NOTICES.txt', bytes: Buffer.from('notices'), stored: true },
    { name: 'tensorflow/include/a.h', bytes: Buffer.from('int a;') },
  ]);
}

/** The bundle that consists of one such wheel. */
export function fakeBundle(wheel: Buffer): Bundle {
  const entry: Wheel = {
    project: PROJECT,
    version: '2.21.0',
    files: [{ file: FILE, bytes: wheel.length, sha256: createHash('sha256').update(wheel).digest('hex') }],
    members: /^tensorflow\/(libtensorflow_(framework|cc)\.so\.2|THIRD_PARTY_NOTICES\.txt)$/,
    unpackedBytes: FRAMEWORK.length + CC.length + 7,
  };
  return { kind: 'cpu', platform: 'linux-x86_64', version: '2.21.0', wheels: [entry], links: [] };
}

/** A context that reaches nothing but `index` and `cache`: no Python, no pip. */
export function fakeContext(cache: string, index: string, bundle: Bundle): Partial<RuntimeContext> {
  return {
    env: { ALAMBIC_CACHE_DIR: cache, PIP_INDEX_URL: index, PATH: '/nowhere', HOME: cache },
    machine: LINUX,
    bundle: () => bundle,
    driver: async () => undefined,
    leastBytes: { framework: 1000, cc: 1000 },
    retryDelay: 1,
  };
}
