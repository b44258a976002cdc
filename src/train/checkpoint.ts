import { createHash } from 'node:crypto';
import nodeFs from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { AlambicError } from '../errors.ts';
import { FileAppender, readBytes, type Written } from '../formats/file-bytes.ts';
import { decodeSafetensors, type TensorRecord, writeSafetensors } from '../formats/safetensors.ts';
import type { KeeperState } from './checkpoint-keeper.ts';
import { errnoOf, explainWriteError, type FileSystem } from './file-errors.ts';
import { decodeJson, encodeJson } from './manifest-json.ts';
import { identityToText, thisProcess } from './process-identity.ts';

/** Version of the folder's layout; raised when older code could not read it any more. */
export const CHECKPOINT_VERSION = 1;
const MANIFEST = 'manifest.json';
const MANIFEST_HASH = 'manifest.sha256';

/** What a checkpoint holds. */
export interface CheckpointContent {
  /** Plain JSON data: stage, phase, epoch, offset, update, metrics, patience, seed, labels, preprocessing, versions, … */
  readonly manifest: object;
  /** Arrays by name, by file: `{ 'model.safetensors': { 'fc.weight': { dtype, shape, data } } }`. */
  readonly tensors: Readonly<Record<string, TensorRecord>>;
  /** Text by file name, for instance the resolved recipe. */
  readonly texts?: Readonly<Record<string, string>>;
  /** What the keep rules know, so that best and last survive a resume. */
  readonly keeper?: KeeperState;
}

/** A checkpoint's manifest, its hash checked. */
export interface CheckpointSummary {
  readonly folder: string;
  /** Counts up over all checkpoints of a run: the largest is the latest, whatever the clock says. */
  readonly sequence: number;
  /** ISO 8601, UTC. */
  readonly savedAt: string;
  readonly manifest: Readonly<Record<string, unknown>>;
  readonly keeper: KeeperState | undefined;
  readonly files: Readonly<Record<string, Written & { readonly kind: 'tensors' | 'text' }>>;
}

/** A checkpoint read back, every file's hash checked. */
export interface Checkpoint extends CheckpointSummary {
  readonly tensors: Readonly<Record<string, TensorRecord>>;
  readonly texts: Readonly<Record<string, string>>;
}

export interface WriteCheckpointOptions {
  /** @default node:fs/promises */
  readonly fs?: FileSystem;
  /** @default now */
  readonly now?: () => Date;
}

/**
 * Writes a checkpoint folder so that a kill, a crash or a full disk at any instant leaves a good one: all files are written aside and brought
 * to the disk, then one rename puts the folder in place. An old one of that name is moved aside first and removed last.
 * The arrays must not change until it is done; one write per folder at a time.
 *
 * @throws AlambicError CHECKPOINT_NO_SPACE, RUN_FOLDER_READ_ONLY, RUN_FOLDER_IS_FILE, WRITE_FAILED, CHECKPOINT_CONTENT; the old checkpoint is untouched.
 * @example
 * await writeCheckpoint('runs/a/checkpoints/student-e3', {
 *   manifest: { stage: 'student', epoch: 3 },
 *   tensors: { 'model.safetensors': { 'fc.bias': tensorData(new Float32Array(10)) } },
 * });
 */
export async function writeCheckpoint(
  folder: string,
  content: CheckpointContent,
  { fs = nodeFs, now = () => new Date() }: WriteCheckpointOptions = {},
): Promise<CheckpointSummary> {
  const { tensors, texts = {}, keeper } = content;
  checkFileNames(Object.keys(tensors), Object.keys(texts));
  const parent = dirname(folder);
  const mark = identityToText(thisProcess());
  const aside = `${folder}.tmp-${mark}`;
  const old = `${folder}.old-${mark}`;
  try {
    await fs.mkdir(parent, { recursive: true });
    const existing = await statOrUndefined(fs, folder);
    if (existing !== undefined && !existing.isDirectory()) throw Object.assign(new Error(), { code: 'EEXIST' });
    const sequence = 1 + (await lastSequence(fs, parent));
    await fs.rm(aside, { recursive: true, force: true });
    await fs.mkdir(aside);

    const files: Record<string, Written & { kind: 'tensors' | 'text' }> = {};
    for (const [file, record] of Object.entries(tensors)) {
      const written = await writeSafetensors(join(aside, file), record, { sync: true, open: fs.open });
      files[file] = { ...written, kind: 'tensors' };
    }
    for (const [file, text] of Object.entries(texts))
      files[file] = { ...(await writeText(fs, join(aside, file), text)), kind: 'text' };
    const savedAt = now().toISOString();
    const head = { format: 'alambic-checkpoint', version: CHECKPOINT_VERSION, sequence, savedAt };
    const text = encodeJson({ ...head, files, keeper, manifest: content.manifest });
    const { sha256 } = await writeText(fs, join(aside, MANIFEST), text);
    // In the form of the sha256sum tool: `sha256sum -c manifest.sha256` checks it.
    await writeText(fs, join(aside, MANIFEST_HASH), `${sha256}  ${MANIFEST}\n`);
    await syncFolder(fs, aside);

    if (existing !== undefined) {
      await fs.rm(old, { recursive: true, force: true });
      await fs.rename(folder, old);
    }
    try {
      await fs.rename(aside, folder);
    } catch (error) {
      if (existing !== undefined) await fs.rename(old, folder);
      throw error;
    }
    await syncFolder(fs, parent);
    // If this fails the folder is a leftover, which the next search for checkpoints removes.
    if (existing !== undefined) await fs.rm(old, { recursive: true, force: true }).catch(() => undefined);
    const manifest = (decodeJson(text) as Pick<CheckpointSummary, 'manifest'>).manifest;
    return { folder, sequence, savedAt, manifest, keeper, files };
  } catch (error) {
    // The disk that refused the write may refuse this too; what remains is a leftover, and the first error is the one to tell.
    const explained = await explainWriteError(fs, error, `checkpoint "${basename(folder)}"`, folder, sizeOf(content));
    await fs.rm(aside, { recursive: true, force: true }).catch(() => undefined);
    throw explained;
  }
}

/**
 * Reads a checkpoint and checks every file against its hash.
 *
 * @param options.files Which files to read and check; default all.
 * @throws AlambicError CHECKPOINT_MISSING, CHECKPOINT_DAMAGED (names the file), CHECKPOINT_VERSION.
 */
export async function readCheckpoint(
  folder: string,
  { fs = nodeFs, files: wanted }: { readonly fs?: FileSystem; readonly files?: readonly string[] } = {},
): Promise<Checkpoint> {
  const summary = await readCheckpointSummary(folder, { fs });
  const tensors: Record<string, TensorRecord> = {};
  const texts: Record<string, string> = {};
  for (const [file, { bytes: size, sha256, kind }] of Object.entries(summary.files)) {
    if (wanted !== undefined && !wanted.includes(file)) continue;
    const path = join(folder, file);
    const { bytes, hash, trailing } = await readHashed(fs, path, size);
    if (trailing || bytes.byteLength !== size)
      throw damaged(path, `expected ${size} bytes, got ${trailing ? 'more' : bytes.byteLength}`);
    if (hash !== sha256) throw damaged(path, `its sha256 is ${hash}, the manifest says ${sha256}`);
    if (kind === 'tensors') tensors[file] = decodeSafetensors(bytes, path).tensors;
    else texts[file] = new TextDecoder().decode(bytes);
  }
  return { ...summary, tensors, texts };
}

/**
 * Reads and checks a checkpoint's manifest and the sizes of its files, not their content: cheap, and enough to list and to sort.
 *
 * @throws AlambicError CHECKPOINT_MISSING, CHECKPOINT_DAMAGED (names the file), CHECKPOINT_VERSION.
 */
export async function readCheckpointSummary(
  folder: string,
  { fs = nodeFs }: { readonly fs?: FileSystem } = {},
): Promise<CheckpointSummary> {
  const stat = await statOrUndefined(fs, folder);
  if (stat === undefined || !stat.isDirectory())
    throw new AlambicError(
      'CHECKPOINT_MISSING',
      `expected a checkpoint folder, there is ${stat ? 'a file' : 'nothing'}`,
      {
        at: folder,
        hint: 'Check the path; the checkpoints of a run lie in its folder `checkpoints`.',
      },
    );
  const path = join(folder, MANIFEST);
  const [text, hashLine] = await Promise.all([readText(fs, path), readText(fs, join(folder, MANIFEST_HASH))]);
  const hash = createHash('sha256').update(text).digest('hex');
  const expected = hashLine.toString().slice(0, 64);
  if (expected !== hash) throw damaged(path, `its sha256 is ${hash}, ${MANIFEST_HASH} says ${expected}`);
  const json = decodeJson(text.toString()) as Omit<CheckpointSummary, 'folder'> & { format: string; version: number };
  if (json.format !== 'alambic-checkpoint' || json.version > CHECKPOINT_VERSION)
    throw new AlambicError(
      'CHECKPOINT_VERSION',
      `expected format alambic-checkpoint, version ${CHECKPOINT_VERSION} or older, got ${json.format}, version ${json.version}`,
      { at: path, hint: 'It was written by a newer alambic: upgrade, or start a new run.' },
    );
  const { sequence, savedAt, manifest, keeper, files } = json;
  for (const [file, { bytes }] of Object.entries(files)) {
    const size = (await statOrUndefined(fs, join(folder, file)))?.size;
    if (size !== bytes)
      throw damaged(join(folder, file), size === undefined ? 'it is missing' : `expected ${bytes} bytes, got ${size}`);
  }
  return { folder, sequence, savedAt, manifest, keeper, files };
}

function damaged(path: string, message: string, cause?: unknown): AlambicError {
  return new AlambicError(
    'CHECKPOINT_DAMAGED',
    `${basename(path)} of checkpoint "${basename(dirname(path))}": ${message}`,
    {
      at: path,
      hint: 'Resume from another checkpoint of the run (--resume on the run folder takes the latest good one), or restore this one from a copy.',
      ...(cause === undefined ? {} : { cause }),
    },
  );
}

function checkFileNames(tensors: readonly string[], texts: readonly string[]): void {
  const seen = new Set([MANIFEST, MANIFEST_HASH]);
  for (const file of [...tensors, ...texts]) {
    if (!/^[\w][\w.-]*$/.test(file) || seen.has(file))
      throw new AlambicError('CHECKPOINT_CONTENT', `expected a plain file name that is used once, got "${file}"`, {
        hint: `Letters, digits, dots, dashes; ${MANIFEST} and ${MANIFEST_HASH} are taken.`,
      });
    seen.add(file);
  }
}

function sizeOf({ tensors, texts = {} }: CheckpointContent): number {
  const arrays = Object.values(tensors).flatMap((record) => Object.values(record));
  const bytes = arrays.reduce((sum, { data }) => sum + data.byteLength, 0);
  return Object.values(texts).reduce((sum, text) => sum + text.length, bytes);
}

export async function statOrUndefined(fs: Pick<FileSystem, 'stat'>, path: string) {
  try {
    return await fs.stat(path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return undefined;
    throw error;
  }
}

/** The largest sequence number among a folder's checkpoints, 0 where there is none; unreadable ones do not count. */
async function lastSequence(fs: FileSystem, parent: string): Promise<number> {
  let last = 0;
  for (const name of await fs.readdir(parent)) {
    try {
      const json = JSON.parse(await fs.readFile(join(parent, name, MANIFEST), 'utf8')) as { sequence?: unknown } | null;
      const sequence = Number(json?.sequence);
      if (Number.isSafeInteger(sequence)) last = Math.max(last, sequence);
    } catch (error) {
      const known = error instanceof SyntaxError || ['ENOENT', 'ENOTDIR', 'EISDIR'].includes(errnoOf(error) ?? '');
      if (!known) throw error;
    }
  }
  return last;
}

async function writeText(fs: FileSystem, path: string, text: string): Promise<Written> {
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

async function readText(fs: FileSystem, path: string): Promise<Buffer> {
  try {
    return await fs.readFile(path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') throw damaged(path, 'it is missing', error);
    throw unreadable(path, error);
  }
}

async function readHashed(fs: FileSystem, path: string, size: number) {
  const hash = createHash('sha256');
  try {
    const handle = await fs.open(path, 'r');
    try {
      const bytes = await readBytes(handle, 0, size, (chunk) => hash.update(chunk));
      const trailing = (await handle.stat()).size > size;
      return { bytes, hash: hash.digest('hex'), trailing };
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') throw damaged(path, 'it is missing', error);
    throw unreadable(path, error);
  }
}

function unreadable(path: string, cause: unknown): AlambicError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return damaged(path, `it cannot be read: ${reason}`, cause);
}

/** Brings renames and new files of a folder to the disk. Windows does not open folders and orders these by itself. */
export async function syncFolder(fs: Pick<FileSystem, 'open'>, folder: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await fs.open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
