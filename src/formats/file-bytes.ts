import { createHash } from 'node:crypto';
import nodeFs, { type FileHandle } from 'node:fs/promises';

const CHUNK_BYTES = 4 << 20;

/** Size and sha256 (hexadecimal) of what was written. */
export interface Written {
  readonly bytes: number;
  readonly sha256: string;
}

/** Appends to an open file through one buffer, hashing on the way; many small pieces cost few system calls. */
export class FileAppender {
  readonly #hash = createHash('sha256');
  readonly #buffer = new Uint8Array(CHUNK_BYTES);
  readonly #handle: Pick<FileHandle, 'write'>;
  #filled = 0;
  #bytes = 0;

  constructor(handle: Pick<FileHandle, 'write'>) {
    this.#handle = handle;
  }

  async append(bytes: Uint8Array): Promise<void> {
    let offset = 0;
    while (offset < bytes.byteLength) {
      const taken = Math.min(CHUNK_BYTES - this.#filled, bytes.byteLength - offset);
      this.#buffer.set(bytes.subarray(offset, offset + taken), this.#filled);
      this.#filled += taken;
      offset += taken;
      if (this.#filled === CHUNK_BYTES) await this.#flush();
    }
  }

  /** Writes the rest; nothing can be appended afterwards. */
  async end(): Promise<Written> {
    await this.#flush();
    return { bytes: this.#bytes, sha256: this.#hash.digest('hex') };
  }

  async #flush(): Promise<void> {
    const chunk = this.#buffer.subarray(0, this.#filled);
    // Hashing while the kernel copies; a write may take less than it was given, on a nearly full disk for instance.
    const writing = writeAll(this.#handle, chunk);
    this.#hash.update(chunk);
    await writing;
    this.#bytes += this.#filled;
    this.#filled = 0;
  }
}

async function writeAll(handle: Pick<FileHandle, 'write'>, bytes: Uint8Array): Promise<void> {
  for (let offset = 0; offset < bytes.byteLength; ) {
    const { bytesWritten } = await handle.write(bytes, offset, bytes.byteLength - offset, null);
    offset += bytesWritten;
  }
}

/**
 * Reads `length` bytes from `position`; less where the file ends before. `onChunk` sees the pieces in order, for hashing.
 * Works beyond the 2 GiB that `readFile` takes.
 */
export async function readBytes(
  handle: Pick<FileHandle, 'read'>,
  position: number,
  length: number,
  onChunk?: (chunk: Uint8Array) => void,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  let offset = 0;
  while (offset < length) {
    const wanted = Math.min(CHUNK_BYTES, length - offset);
    const { bytesRead } = await handle.read(bytes, offset, wanted, position + offset);
    if (bytesRead === 0) return bytes.subarray(0, offset);
    onChunk?.(bytes.subarray(offset, offset + bytesRead));
    offset += bytesRead;
  }
  return bytes;
}

/** Writes a text file (UTF-8) and waits until it is on the disk. */
export async function writeText(
  path: string,
  text: string,
  fs: { open(path: string, flags: string): Promise<FileHandle> } = nodeFs,
): Promise<Written> {
  const handle = await fs.open(path, 'w');
  try {
    const file = new FileAppender(handle);
    await file.append(new TextEncoder().encode(text));
    const written = await file.end();
    await handle.sync();
    return written;
  } finally {
    await handle.close();
  }
}
