/**
 * How much of an epoch's time its consumer spent waiting for data. Time between epochs does not count.
 *
 * A share near 0 means that the loader keeps up; near 1 that the step starves.
 */
export class WaitMeter {
  #waited = 0;
  #total = 0;
  #running: number | undefined;
  #waiting: number | undefined;

  /** Milliseconds in which the consumer waited for a batch. */
  get waitedMs(): number {
    return this.#waited + (this.#waiting === undefined ? 0 : performance.now() - this.#waiting);
  }

  /** Milliseconds in which an epoch was under way. */
  get totalMs(): number {
    return this.#total + (this.#running === undefined ? 0 : performance.now() - this.#running);
  }

  /** Waited share of the time, 0..1. */
  share(): number {
    const total = this.totalMs;
    return total === 0 ? 0 : Math.min(1, this.waitedMs / total);
  }

  /** Readings since the last `take`, which then begin again at zero. */
  take(): { waitedMs: number; totalMs: number; share: number } {
    const reading = { waitedMs: this.waitedMs, totalMs: this.totalMs, share: this.share() };
    const now = performance.now();
    this.#waited = 0;
    this.#total = 0;
    if (this.#running !== undefined) this.#running = now;
    if (this.#waiting !== undefined) this.#waiting = now;
    return reading;
  }

  /** An epoch begins. */
  start(): void {
    this.#running ??= performance.now();
  }

  /** An epoch ends or is left. */
  stop(): void {
    this.#total = this.totalMs;
    this.#running = undefined;
  }

  /** Awaits `work` and counts the time as waiting. */
  async wait<T>(work: Promise<T>): Promise<T> {
    this.#waiting = performance.now();
    try {
      return await work;
    } finally {
      this.#waited = this.waitedMs;
      this.#waiting = undefined;
    }
  }
}
