import type { Listener, RunEvent } from '../plugin-host/contract.ts';
import type { Colors } from './colors.ts';
import { evaluationLine, linesOf, stepLine } from './event-lines.ts';
import { Progress } from './progress.ts';

export interface PlainLoggerOptions {
  readonly write: (line: string) => void;
  readonly colors: Colors;
  /** Least milliseconds between two lines about steps; a tenth of it between two about evaluations. @default 10000 */
  readonly interval?: number;
  /** Columns; a log file has as many as it likes. @default 120 */
  readonly width?: number;
  /** Clock [ms]. @default performance.now */
  readonly now?: () => number;
}

/** Follows a run where nothing can be redrawn (a file, CI): one line per interval about steps, and some about evaluations. */
export class PlainLogger implements Listener {
  readonly #options: Required<PlainLoggerOptions>;
  readonly #progress = new Progress();
  #last = { step: Number.NEGATIVE_INFINITY, evaluation: Number.NEGATIVE_INFINITY };

  constructor(options: PlainLoggerOptions) {
    this.#options = { interval: 10_000, width: 120, now: () => performance.now(), ...options };
  }

  on(event: RunEvent): void {
    const { write, colors, width, interval, now } = this.#options;
    const at = now();
    this.#progress.take(event, at);
    for (const line of linesOf(event, this.#progress, { colors, width })) write(line);
    if (event.type === 'stage-start')
      this.#last = { step: Number.NEGATIVE_INFINITY, evaluation: Number.NEGATIVE_INFINITY };
    if (event.type === 'step' && at - this.#last.step >= interval) {
      this.#last.step = at;
      write(stepLine(this.#progress, at));
    }
    // A small stage may be evaluated many times a second.
    if (
      event.type === 'evaluation' &&
      this.#progress.stage !== undefined &&
      at - this.#last.evaluation >= interval / 10
    ) {
      this.#last.evaluation = at;
      write(evaluationLine(event));
    }
  }
}
