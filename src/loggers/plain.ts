import type { Listener, RunEvent } from '../plugin-host/contract.ts';
import type { Colors } from './colors.ts';
import { evaluationLine, linesOf, stepLine } from './event-lines.ts';
import { Progress } from './progress.ts';

export interface PlainLoggerOptions {
  readonly write: (line: string) => void;
  readonly colors: Colors;
  /** Least milliseconds between two lines about steps. @default 10000 */
  readonly interval?: number;
  /** Columns; a log file has as many as it likes. @default 120 */
  readonly width?: number;
  /** Clock [ms]. @default performance.now */
  readonly now?: () => number;
}

/** Follows a run where nothing can be redrawn (a file, CI): one line per evaluation, and one per interval about steps. */
export class PlainLogger implements Listener {
  readonly #options: Required<PlainLoggerOptions>;
  readonly #progress = new Progress();
  #last = Number.NEGATIVE_INFINITY;

  constructor(options: PlainLoggerOptions) {
    this.#options = { interval: 10_000, width: 120, now: () => performance.now(), ...options };
  }

  on(event: RunEvent): void {
    const { write, colors, width, interval, now } = this.#options;
    const at = now();
    this.#progress.take(event, at);
    for (const line of linesOf(event, this.#progress, { colors, width })) write(line);
    if (event.type === 'evaluation') write(evaluationLine(event));
    if (event.type === 'stage-start') this.#last = Number.NEGATIVE_INFINITY;
    if (event.type === 'step' && at - this.#last >= interval) {
      this.#last = at;
      write(stepLine(this.#progress, at));
    }
  }
}
