import { createHash } from 'node:crypto';
import nodeFs from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { AlambicError } from '../errors.ts';
import { readBytes, type Written, writeText } from '../formats/file-bytes.ts';
import { decodeSafetensors, type TensorRecord, writeSafetensors } from '../formats/safetensors.ts';
import type { KeeperState } from './checkpoint-keeper.ts';
import { errnoOf, type FileSystem } from './file-errors.ts';
import { replaceFolder, statOrUndefined } from './folder-replacement.ts';
import { decodeJson, encodeJson } from './manifest-json.ts';

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
  const what = `checkpoint "${basename(folder)}"`;
  return replaceFolder(fs, folder, { what, bytes: sizeOf(content) }, async (aside) => {
    const sequence = 1 + (await lastSequence(fs, dirname(folder)));
    const files: Record<string, Written & { kind: 'tensors' | 'text' }> = {};
    for (const [file, record] of Object.entries(tensors)) {
      const written = await writeSafetensors(join(aside, file), record, { sync: true, open: fs.open });
      files[file] = { ...written, kind: 'tensors' };
    }
    for (const [file, text] of Object.entries(texts))
      files[file] = { ...(await writeText(join(aside, file), text, fs)), kind: 'text' };
    const savedAt = now().toISOString();
    const head = { format: 'alambic-checkpoint', version: CHECKPOINT_VERSION, sequence, savedAt };
    const text = encodeJson({ ...head, files, keeper, manifest: content.manifest });
    const { sha256 } = await writeText(join(aside, MANIFEST), text, fs);
    // In the form of the sha256sum tool: `sha256sum -c manifest.sha256` checks it.
    await writeText(join(aside, MANIFEST_HASH), `${sha256}  ${MANIFEST}\n`, fs);
    const { manifest } = decodeJson(text) as Pick<CheckpointSummary, 'manifest'>;
    return { folder, sequence, savedAt, manifest, keeper, files };
  });
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
