import { closeSync, fstatSync, fsyncSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Listener, RunEvent } from '../plugin-host/contract.ts';
import { definePlugin } from '../plugin-host/define.ts';
import { TOKEN } from '../plugin-host/tokens.ts';
import { logLine } from './log-lines.ts';

const Options = z.strictObject({
  file: z.string().min(1).default('run.jsonl').meta({ description: 'file name, relative to the run folder' }),
});

/** Events after which the log is brought to the disk itself, so that not even a power cut loses what came before. */
const SYNCED: ReadonlySet<RunEvent['type']> = new Set(['checkpoint', 'stage-end', 'run-end', 'interrupted']);

/**
 * Writes each event as one line of JSON, at once: a killed process loses no event that happened before. A resumed run goes on in the same
 * file, its `run-start` line (`resumed: true`) marks where; what stood there after the checkpoint stays, and readers take the later line.
 */
@injectable()
export class JsonlLogger implements Listener {
  readonly #file: string;
  #descriptor: number | undefined;

  constructor(@inject(TOKEN.Options) options: z.output<typeof Options>) {
    this.#file = options.file;
  }

  on(event: RunEvent): void {
    if (event.type === 'run-start') this.#open(event.folder);
    if (this.#descriptor === undefined) return;
    writeAll(this.#descriptor, logLine(event, new Date()));
    if (SYNCED.has(event.type)) fsyncSync(this.#descriptor);
  }

  close(): void {
    if (this.#descriptor === undefined) return;
    closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  #open(folder: string): void {
    this.close();
    const path = join(resolve(folder), this.#file);
    const descriptor = openSync(path, 'a+');
    ftruncateSync(descriptor, wholeLines(descriptor));
    this.#descriptor = descriptor;
  }
}

function writeAll(descriptor: number, text: string): void {
  const bytes = Buffer.from(text);
  let at = 0;
  while (at < bytes.length) at += writeSync(descriptor, bytes, at);
}

/** Bytes up to the last newline: what a killed writer left behind it is cut off. */
function wholeLines(descriptor: number): number {
  const { size } = fstatSync(descriptor);
  const block = Buffer.alloc(64 * 1024);
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - block.length);
    const read = readSync(descriptor, block, 0, end - start, start);
    const newline = block.subarray(0, read).lastIndexOf(0x0a);
    if (newline >= 0) return start + newline + 1;
    end = start;
  }
  return 0;
}

export default definePlugin({
  name: 'jsonl',
  kind: 'logger',
  apiVersion: 1,
  description: 'one JSON event a line, written at once; survives a kill and goes on after a resume',
  options: Options,
  implementation: JsonlLogger,
});
