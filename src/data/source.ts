/** One image as it lies in a data set, decoded: uint8 [H,W,C]. */
export interface DecodedImage {
  readonly data: Uint8Array;
  readonly height: number;
  readonly width: number;
  readonly channels: number;
}

/** One item of a source, without its pixels. */
export interface SampleInfo {
  /** Stable over runs, machines and listings: a relative path, or `train/17`. Splits and caches are keyed by it. */
  readonly id: string;
  /** Index into `labels`, or -1 where the item has none. */
  readonly label: number;
}

/**
 * A data set: knows its items at once, reads the pixels of one on demand. Reading must be safe to run many times at once.
 * An item that cannot be read throws `AlambicError('DATA_UNREADABLE')`; the loader's rule decides whether the run goes on without it.
 */
export interface Source {
  readonly name: string;
  /** Class names in the order of the label index; an empty class keeps its place. */
  readonly labels: readonly string[];
  readonly items: readonly SampleInfo[];
  /** Decoded pixels of item `index`, as stored (no resize), with `channels` channels if the source can convert. */
  read(index: number): Promise<DecodedImage>;
  close?(): Promise<void>;
}

/** A batch as the loader delivers it: host memory only. */
export interface HostBatch {
  /** uint8 [N,H,W,C]. */
  readonly images: Uint8Array;
  readonly shape: readonly [number, number, number, number];
  /** int32 [N]; -1 = no label. */
  readonly labels: Int32Array;
  /** Positions in the source (not in the split), one per item. */
  readonly indices: Int32Array;
  readonly epoch: number;
  /** Position of the first item in this epoch's order. */
  readonly offset: number;
}
