import { AlambicError } from '../errors.ts';
import { ImageStore, type ImageStoreOptions } from './image-store.ts';
import { epochOrder } from './order.ts';
import type { HostBatch, Source } from './source.ts';
import { WaitMeter } from './wait-meter.ts';

export interface LoaderOptions extends ImageStoreOptions {
  /** Items of the source that this loader delivers. @default all */
  readonly indices?: ArrayLike<number>;
  /** Label of each item of the source (not of `indices`), for instance from `selectLabelled`. @default the source's own */
  readonly labels?: Int32Array;
  readonly batchSize: number;
  /** Visit the items in an order of (seed, epoch) instead of as listed. @default false */
  readonly shuffle?: boolean;
  /** @default 0 */
  readonly seed?: number;
  /** Batches that are made ready ahead of the consumer; bounds the memory. @default 2 */
  readonly prefetch?: number;
  /** Items that are read at the same time. @default 8 */
  readonly readers?: number;
  /**
   * What becomes of an item that cannot be read: `error` ends the epoch; `skip` leaves it out and warns once per item.
   * @default 'error'
   */
  readonly onUnreadable?: 'error' | 'skip';
  /**
   * With `skip`: whether the next readable item of the epoch's order takes its place, so that batches keep their size (an item is then
   * seen twice). Without it the batch is shorter. Both depend only on the order and on which files are readable, so a resume is exact.
   * @default the value of `shuffle`
   */
  readonly fillSkipped?: boolean;
  /** With `skip`: largest share of unreadable items, 0..1; above it the epoch ends with an error. @default 0.01 */
  readonly maxUnreadableShare?: number;
  /** What becomes of a last batch that is not full. @default 'keep' */
  readonly tail?: 'keep' | 'drop';
  readonly onWarning?: (warning: { code: string; message: string }) => void;
  /** A store to share between loaders of one source and size; else the loader makes its own. */
  readonly store?: ImageStore;
}

export interface Loader {
  /** Number of items, unreadable ones included. */
  readonly size: number;
  /** Number of batches of a whole epoch. */
  readonly batches: number;
  readonly batchSize: number;
  readonly source: Source;
  readonly store: ImageStore;
  readonly wait: WaitMeter;
  /** Items (positions in the source) in the order of an epoch. */
  order(epoch: number): Int32Array;
  /** Batches of an epoch from position `fromOffset` on: the same as in an uninterrupted epoch when it is a batch's `nextOffset`. */
  epoch(epoch: number, fromOffset?: number): AsyncGenerator<HostBatch, void, undefined>;
}

/** Batches of the source's items, made ready in the background. Throws `DATA_EMPTY` and `DATA_OPTIONS` at once. */
export function createLoader(options: LoaderOptions): Loader {
  return new BatchLoader(options);
}

/** Longest time that making batches ready may hold up the event loop at once, in milliseconds. */
const TURN_MS = 5;

type Outcome = { batch: HostBatch | undefined } | { error: unknown };

class BatchLoader implements Loader {
  readonly size: number;
  readonly batches: number;
  readonly batchSize: number;
  readonly source: Source;
  readonly store: ImageStore;
  readonly wait = new WaitMeter();
  readonly #options: LoaderOptions;
  readonly #indices: Int32Array;
  readonly #labels: Int32Array;
  readonly #unreadable = new Map<number, AlambicError>();
  readonly #warned = new Set<number>();

  constructor(options: LoaderOptions) {
    const { source, batchSize, indices, labels, store } = options;
    for (const [name, value] of Object.entries({ batchSize, prefetch: options.prefetch, readers: options.readers })) {
      if (value !== undefined && (!Number.isInteger(value) || value < 1)) {
        throw new AlambicError('DATA_OPTIONS', `expected ${name} to be a whole number >= 1, got ${value}`);
      }
    }
    this.#indices = indices === undefined ? Int32Array.from(source.items, (_, i) => i) : Int32Array.from(indices);
    const outside = this.#indices.find((index) => index < 0 || index >= source.items.length);
    if (outside !== undefined) {
      throw new AlambicError('DATA_OPTIONS', `expected indices below ${source.items.length}, got ${outside}`);
    }
    if (labels !== undefined && labels.length !== source.items.length) {
      throw new AlambicError(
        'DATA_OPTIONS',
        `expected one label for each of the source's ${source.items.length} items, got ${labels.length}`,
      );
    }
    if (this.#indices.length === 0) {
      throw new AlambicError('DATA_EMPTY', `expected at least one item of ${source.name}, got none`, {
        hint: 'Check the shares of the splits and the path of the data.',
      });
    }
    this.#options = options;
    this.#labels = labels ?? Int32Array.from(source.items, ({ label }) => label);
    this.source = source;
    this.batchSize = batchSize;
    this.store = store ?? new ImageStore(options);
    this.size = this.#indices.length;
    this.batches = options.tail === 'drop' ? Math.floor(this.size / batchSize) : Math.ceil(this.size / batchSize);
  }

  order(epoch: number): Int32Array {
    if (this.#options.shuffle !== true) return this.#indices;
    return epochOrder(this.size, this.#options.seed ?? 0, epoch).map((position) => this.#indices[position]!);
  }

  async *epoch(epoch: number, fromOffset = 0): AsyncGenerator<HostBatch, void, undefined> {
    if (!Number.isInteger(fromOffset) || fromOffset < 0 || fromOffset > this.size) {
      throw new AlambicError('DATA_OPTIONS', `expected an offset from 0 to ${this.size}, got ${fromOffset}`);
    }
    const order = this.order(epoch);
    const gate = new ReaderGate(this.#options.readers ?? 8);
    const ahead = this.#options.prefetch ?? 2;
    const queue: Promise<Outcome>[] = [];
    let next = fromOffset;
    const fill = () => {
      while (queue.length < ahead && next < this.size) {
        const end = Math.min(this.size, next + this.batchSize);
        if (end - next < this.batchSize && this.#options.tail === 'drop') return;
        queue.push(this.#start(order, epoch, next, end, gate));
        next = end;
      }
    };
    this.wait.start();
    try {
      fill();
      while (queue.length > 0) {
        const outcome = await this.wait.wait(queue[0]!);
        queue.shift();
        fill();
        if ('error' in outcome) throw outcome.error;
        if (outcome.batch !== undefined) yield outcome.batch;
      }
    } finally {
      this.wait.stop();
      gate.close();
      await Promise.all(queue);
    }
  }

  /** Makes a batch after the current turn of the event loop, so that copying never delays the consumer; never rejects. */
  async #start(order: Int32Array, epoch: number, begin: number, end: number, gate: ReaderGate): Promise<Outcome> {
    await new Promise(setImmediate);
    try {
      return { batch: await this.#assemble(order, epoch, begin, end, gate) };
    } catch (error) {
      return { error };
    }
  }

  async #assemble(order: Int32Array, epoch: number, begin: number, end: number, gate: ReaderGate) {
    const { itemBytes, inputSize } = this.store;
    const indices = order.slice(begin, end);
    const images = new Uint8Array(indices.length * itemBytes);
    const failed: number[] = [];
    const errors: unknown[] = [];
    const pending: Promise<void>[] = [];
    let turn = performance.now();
    for (let k = 0; k < indices.length; k++) {
      if (performance.now() - turn > TURN_MS) {
        await new Promise(setImmediate);
        turn = performance.now();
      }
      if (gate.closed) break;
      try {
        const placed = this.#place(indices[k]!, images, k * itemBytes, gate);
        if (placed === true) continue;
        pending.push(
          Promise.resolve(placed).then(
            (read) => void (read || failed.push(k)),
            (error: unknown) => void errors.push(error),
          ),
        );
      } catch (error) {
        errors.push(error);
        break;
      }
    }
    // All of them, so that no read is still under way when an error ends the epoch.
    await Promise.all(pending);
    if (errors.length > 0) throw errors[0];
    if (gate.closed) return undefined;
    failed.sort((a, b) => a - b);
    const left = await this.#handleFailed(failed, order, begin, indices, images);
    if (left.length === 0) return undefined;
    const kept = left.length === indices.length;
    const batch: HostBatch = {
      images: kept ? images : concatenate(left.map((k) => images.subarray(k * itemBytes, (k + 1) * itemBytes))),
      shape: [left.length, ...inputSize],
      indices: kept ? indices : Int32Array.from(left, (k) => indices[k]!),
      labels: Int32Array.from(left, (k) => this.#labels[indices[k]!]!),
      epoch,
      offset: begin,
      nextOffset: end,
    };
    return batch;
  }

  /** Puts the pixels of an item at their place in a batch; false where it cannot be read. */
  #place(index: number, images: Uint8Array, at: number, gate: ReaderGate): boolean | Promise<boolean> {
    if (!this.#unreadable.has(index)) {
      try {
        const ready = this.store.get(index);
        if (ready !== undefined) {
          images.set(ready, at);
          return true;
        }
      } catch (error) {
        this.#noteUnreadable(index, error);
      }
    }
    return gate.run(async () => {
      const loaded = await this.#load(index);
      if (loaded !== undefined) images.set(loaded, at);
      return loaded !== undefined;
    });
  }

  /** Fills or leaves out the places of unreadable items; the places of the batch that hold an image. */
  async #handleFailed(
    failed: readonly number[],
    order: Int32Array,
    begin: number,
    indices: Int32Array,
    images: Uint8Array,
  ): Promise<number[]> {
    const places = Array.from(indices, (_, k) => k);
    if (failed.length === 0) return places;
    const { onUnreadable = 'error', shuffle = false, fillSkipped = shuffle, maxUnreadableShare = 0.01 } = this.#options;
    if (onUnreadable === 'error') throw this.#unreadable.get(indices[failed[0]!]!)!;
    for (const k of failed) this.#warn(indices[k]!);
    if (this.#unreadable.size > maxUnreadableShare * this.size) {
      const first = this.#unreadable.get(indices[failed[0]!]!)!;
      const share = (100 * this.#unreadable.size) / this.size;
      throw new AlambicError(
        'DATA_UNREADABLE',
        `expected at most ${100 * maxUnreadableShare} % unreadable items, got ${this.#unreadable.size} of ${this.size} ` +
          `(${share.toFixed(1)} %); ${first.message}`,
        { hint: 'Repair the files, or raise the allowed share of unreadable items.', cause: first },
      );
    }
    if (!fillSkipped) {
      const gone = new Set(failed);
      return places.filter((k) => !gone.has(k));
    }
    for (const k of failed) {
      let pixels: Uint8Array | undefined;
      let index = indices[k]!;
      for (let step = 1; step < order.length && pixels === undefined; step++) {
        index = order[(begin + k + step) % order.length]!;
        if (!this.#unreadable.has(index)) pixels = await this.#load(index);
        if (this.#unreadable.has(index)) this.#warn(index);
      }
      if (pixels === undefined) {
        throw new AlambicError('DATA_EMPTY', `expected at least one readable item of ${this.source.name}, got none`);
      }
      images.set(pixels, k * this.store.itemBytes);
      indices[k] = index;
    }
    return places;
  }

  #warn(index: number): void {
    if (this.#warned.has(index)) return;
    this.#warned.add(index);
    this.#options.onWarning?.({ code: 'DATA_UNREADABLE', message: this.#unreadable.get(index)!.message });
  }

  /** Pixels of an item, or undefined where it cannot be read: then the reason is kept. Other errors are thrown. */
  async #load(index: number): Promise<Uint8Array | undefined> {
    if (this.#unreadable.has(index)) return undefined;
    try {
      return await this.store.load(index);
    } catch (error) {
      this.#noteUnreadable(index, error);
      return undefined;
    }
  }

  /** Keeps why an item cannot be read; throws any other error again. */
  #noteUnreadable(index: number, error: unknown): void {
    if (!(error instanceof AlambicError) || error.code !== 'DATA_UNREADABLE') throw error;
    this.#unreadable.set(index, error);
  }
}

/** Lets a bounded number of reads run at once, first come first served. */
class ReaderGate {
  closed = false;
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(readers: number) {
    this.#free = readers;
  }

  /** Runs the work when its turn comes; true without running it where the gate was closed meanwhile. */
  async run(work: () => Promise<boolean>): Promise<boolean> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return this.closed || (await work());
    } finally {
      const first = this.#waiting.shift();
      if (first === undefined) this.#free++;
      else first();
    }
  }

  /** Reads that have not begun never will. */
  close(): void {
    this.closed = true;
  }
}

function concatenate(parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
