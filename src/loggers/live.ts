import { createLogUpdate } from 'log-update';
import type { Listener, RunEvent } from '../plugin-host/contract.ts';
import type { Colors } from './colors.ts';
import { linesOf } from './event-lines.ts';
import { renderBlock } from './live-block.ts';
import { Progress } from './progress.ts';

/** Milliseconds between two drawings. */
const REDRAW = 120;

/** Follows a run on a terminal: lines that stay above one block that is redrawn in place. */
export class LiveLogger implements Listener {
  readonly #stream: NodeJS.WriteStream;
  readonly #colors: Colors;
  readonly #progress = new Progress();
  readonly #draw: ReturnType<typeof createLogUpdate>;
  #timer: NodeJS.Timeout | undefined;

  constructor(stream: NodeJS.WriteStream, colors: Colors) {
    this.#stream = stream;
    this.#colors = colors;
    this.#draw = createLogUpdate(stream);
  }

  on(event: RunEvent): void {
    this.#progress.take(event, performance.now());
    const lines = linesOf(event, this.#progress, { colors: this.#colors, width: this.#width });
    if (event.type === 'run-end' || event.type === 'interrupted') this.close();
    if (lines.length > 0) this.keep(lines.join('\n'));
    if (event.type === 'run-start') this.#start();
  }

  /** Writes text that stays, above the block. */
  keep(text: string): void {
    if (this.#timer === undefined) {
      this.#stream.write(`${text}\n`);
      return;
    }
    this.#draw.clear();
    this.#stream.write(`${text}\n`);
    this.#redraw();
  }

  /** Takes the block away and gives the cursor back; also the way out of an error. */
  close(): void {
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#draw.clear();
    this.#draw.done();
  }

  get #width(): number {
    return this.#stream.columns ?? 80;
  }

  #start(): void {
    this.#timer ??= setInterval(() => this.#redraw(), REDRAW);
    // The block must not keep a process alive that has nothing else to do.
    this.#timer.unref();
  }

  #redraw(): void {
    // One column less: some terminals wrap a line that fills the last one.
    const look = { width: Math.max(20, this.#width - 1), colors: this.#colors, now: performance.now() };
    this.#draw(`\n${renderBlock(this.#progress, look)}`);
  }
}
