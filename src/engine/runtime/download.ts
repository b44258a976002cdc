import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, rename, rm, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { AlambicError } from '../../errors.ts';
import type { RuntimeContext } from './context.ts';
import { get, withoutCredentials } from './https-get.ts';
import type { WheelFile } from './manifest.ts';

/** How far the transfer of one file is, in bytes. */
export interface Progress {
  readonly file: string;
  readonly received: number;
  readonly total: number;
}

export interface DownloadOptions {
  readonly context: Pick<RuntimeContext, 'env' | 'retryDelay'>;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  readonly say?: ((line: string) => void) | undefined;
}

/** Attempts in a row that may bring nothing. */
const ATTEMPTS = 5;

/** Something that another attempt may mend: a broken connection, an overloaded server. */
class Broken extends Error {}

/**
 * Downloads a pinned file to `path`, which then holds exactly that file. What had come when a connection broke (or this process
 * was killed) stays in `<path>.part` and is gone on from, where the server can; else it starts anew.
 *
 * @throws AlambicError RUNTIME_OFFLINE (no connection at all), RUNTIME_DOWNLOAD (it broke again and again, or the server refuses),
 * RUNTIME_BAD_HASH, RUNTIME_NO_SPACE.
 */
export async function download(url: string, file: WheelFile, path: string, options: DownloadOptions): Promise<void> {
  const part = `${path}.part`;
  let idle = 0;
  let fresh = false;
  for (;;) {
    const before = await sizeOf(part);
    try {
      const sha256 = await transfer(url, file, part, options);
      if (sha256 === file.sha256) break;
      await rm(part, { force: true });
      // A part from an earlier run may have been another file's; a file that came in one piece is what the server has.
      if (fresh || before === 0) throw badHash(file, `the download's sha256 is ${sha256}`, url);
      fresh = true;
      options.say?.(`${file.file}: the part from before does not fit, starting anew`);
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      const now = await sizeOf(part);
      idle = now > before ? 1 : idle + 1;
      if (idle >= ATTEMPTS) throw giveUp(error, file, now, url);
      const delay = options.context.retryDelay * 2 ** (idle - 1);
      options.say?.(`${error.message}; trying again in ${(delay / 1000).toFixed(1)} s`);
      await sleep(delay);
    }
  }
  await rename(part, path);
}

/** The file is not the pinned one. */
export function badHash(file: WheelFile, what: string, from: string): AlambicError {
  return new AlambicError('RUNTIME_BAD_HASH', `expected ${file.file} with sha256 ${file.sha256}, but ${what}`, {
    hint: 'The file was changed on the way or is another one: check the mirror or proxy that PIP_INDEX_URL or HTTPS_PROXY name, then try again. Nothing was installed.',
    at: /^https?:/.test(from) ? withoutCredentials(from) : from,
  });
}

/** sha256 of a file, in hex. */
export async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  await feed(hash, path);
  return hash.digest('hex');
}

/** An error of the file system that says that the disk is full. */
export function noSpace(path: string, cause: unknown): AlambicError {
  return new AlambicError('RUNTIME_NO_SPACE', `expected room on the disk of ${path}, it is full`, {
    hint: 'Free some space, or set ALAMBIC_CACHE_DIR to a folder on a larger disk. What was downloaded is kept.',
    cause,
  });
}

export function isNoSpace(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return code === 'ENOSPC' || code === 'EDQUOT';
}

/** One attempt; gives the sha256 of the whole file. */
async function transfer(url: string, file: WheelFile, part: string, options: DownloadOptions): Promise<string> {
  let start = await sizeOf(part);
  if (start > file.bytes) start = await empty(part);
  const hash = createHash('sha256');
  await feed(hash, part, start);
  if (start === file.bytes) return hash.digest('hex');
  const headers: Record<string, string> = { 'accept-encoding': 'identity' };
  if (start > 0) headers['range'] = `bytes=${start}-`;
  const answer = await get(url, { env: options.context.env, headers }).catch((error: unknown) => {
    throw new Broken(`${file.file}: ${describeFailure(error)}`, { cause: error });
  });
  const { status, body } = answer;
  let state = { hash, start };
  if (status === 206 && rangeStart(answer.headers['content-range']) === start) {
    // Goes on where the part ends.
  } else if (status === 200) {
    // The server sends everything: it has no ranges, or this is the first attempt.
    if (start > 0) await empty(part);
    state = { hash: createHash('sha256'), start: 0 };
    const length = Number(answer.headers['content-length']);
    if (Number.isFinite(length) && length !== file.bytes) {
      body.destroy();
      throw badHash(file, `the server offers ${length} bytes instead of ${file.bytes}`, url);
    }
  } else {
    body.destroy();
    if (status === 206 || status === 416) await empty(part);
    if (status === 206 || status === 416 || status === 408 || status === 429 || status >= 500) {
      throw new Broken(`${file.file}: the server answered ${status}`);
    }
    throw new AlambicError('RUNTIME_DOWNLOAD', `expected ${file.file}, the server answered ${status}`, {
      hint: 'Check the package index that PIP_INDEX_URL names, and its credentials.',
      at: answer.url,
    });
  }
  return receive(body, file, part, state, options);
}

async function receive(
  body: AsyncIterable<Buffer>,
  file: WheelFile,
  part: string,
  { hash, start }: { hash: Hash; start: number },
  { onProgress }: DownloadOptions,
): Promise<string> {
  const out = await open(part, start === 0 ? 'w' : 'r+');
  let received = start;
  onProgress?.({ file: file.file, received, total: file.bytes });
  try {
    const chunks = body[Symbol.asyncIterator]();
    for (;;) {
      const { done, value: chunk } = await chunks.next().catch((error: unknown) => {
        throw new Broken(`${file.file}: ${describeFailure(error)}`, { cause: error });
      });
      if (done) break;
      if (received + chunk.length > file.bytes) throw badHash(file, `more than its ${file.bytes} bytes came`, part);
      hash.update(chunk);
      for (let written = 0; written < chunk.length; ) {
        const { bytesWritten } = await out.write(chunk, written, chunk.length - written, received + written);
        written += bytesWritten;
      }
      received += chunk.length;
      onProgress?.({ file: file.file, received, total: file.bytes });
    }
    if (received < file.bytes) throw new Broken(`${file.file}: the connection ended early`);
    await out.sync();
  } catch (error) {
    throw isNoSpace(error) ? noSpace(part, error) : error;
  } finally {
    await out.close();
  }
  return hash.digest('hex');
}

function giveUp(error: Broken, file: WheelFile, received: number, url: string): AlambicError {
  const at = withoutCredentials(url);
  if (received === 0) {
    return offline(error.message, error.cause ?? error, at);
  }
  return new AlambicError(
    'RUNTIME_DOWNLOAD',
    `expected all of ${file.file}, the connection broke again and again: ${error.message}`,
    {
      hint: `${received} of ${file.bytes} bytes are kept; \`alambic runtime install\` goes on from there.`,
      at,
      cause: error,
    },
  );
}

/** The index or its files are out of reach. */
export function offline(message: string, cause: unknown, at?: string): AlambicError {
  return new AlambicError('RUNTIME_OFFLINE', `expected to reach the package index: ${message}`, {
    hint:
      'Connect to the network (HTTPS_PROXY and PIP_CERT are honoured), set PIP_INDEX_URL to an index in reach, or set ' +
      "ALAMBIC_TENSORFLOW_DIR to a folder with TensorFlow's libraries.",
    cause,
    ...(at !== undefined && { at }),
  });
}

/** What went wrong with a connection; several addresses of one host fail together, with an empty message. */
export function describeFailure(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return describeFailure(error.errors[0]);
  const { message, code } = error as NodeJS.ErrnoException;
  return message || code || String(error);
}

async function feed(hash: Hash, path: string, length = Number.POSITIVE_INFINITY): Promise<void> {
  if (length === 0) return;
  for await (const chunk of createReadStream(path, { end: length - 1, highWaterMark: 1 << 20 }))
    hash.update(chunk as Buffer);
}

async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch {
    // Nothing has come yet.
    return 0;
  }
}

async function empty(path: string): Promise<0> {
  await rm(path, { force: true });
  return 0;
}

function rangeStart(header: string | undefined): number | undefined {
  const match = /^bytes (\d+)-/.exec(header ?? '');
  return match === null ? undefined : Number(match[1]);
}
