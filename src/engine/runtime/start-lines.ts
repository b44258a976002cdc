import { randomBytes } from 'node:crypto';
import { closeSync, fstatSync, openSync, readSync, unlinkSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** `dup`, `dup2` and `close` of the C library; Node's own close warns of descriptors that it did not open itself. */
export interface FileDescriptors {
  duplicate(descriptor: number): number;
  duplicateTo(descriptor: number, target: number): number;
  closeDuplicate(descriptor: number): void;
}

/**
 * TensorFlow writes these while it is being loaded, before any log level counts; they say nothing that a user could act on.
 * Every other line is passed on.
 */
const NOISE = [/^WARNING: All log messages before absl::InitializeLog/, /oneDNN custom operations are on/];

/** Runs a loading step with standard error held back for that long, and passes on what is not noise. */
export function withoutStartLines<T>({ duplicate, duplicateTo, closeDuplicate }: FileDescriptors, load: () => T): T {
  const file = openUnnamedFile();
  if (file === undefined) return load();
  const stderr = duplicate(2);
  if (stderr < 0) {
    closeSync(file);
    return load();
  }
  duplicateTo(file, 2);
  try {
    return load();
  } finally {
    duplicateTo(stderr, 2);
    closeDuplicate(stderr);
    const text = readAll(file);
    closeSync(file);
    const rest = text.split('\n').filter((line) => line !== '' && !NOISE.some((pattern) => pattern.test(line)));
    if (rest.length > 0) writeSync(2, `${rest.join('\n')}\n`);
  }
}

function openUnnamedFile(): number | undefined {
  const path = join(tmpdir(), `alambic-${process.pid}-${randomBytes(6).toString('hex')}`);
  try {
    const file = openSync(path, 'wx+', 0o600);
    unlinkSync(path);
    return file;
  } catch {
    // No temporary folder to write to: the lines are shown, nothing else is lost.
    return undefined;
  }
}

function readAll(file: number): string {
  const bytes = Buffer.alloc(fstatSync(file).size);
  let length = 0;
  while (length < bytes.length) {
    const count = readSync(file, bytes, length, bytes.length - length, length);
    if (count === 0) break;
    length += count;
  }
  return bytes.toString('utf8', 0, length);
}
