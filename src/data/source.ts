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

/** What becomes of an image whose size is not the wanted one. */
export interface ResizeRule {
  /** `resize` by interpolation, `pad` with zeros around the centre (the image must not be larger), or `error`. @default 'resize' */
  readonly rule?: 'resize' | 'pad' | 'error';
  /** Both shrink with antialias. @default 'bilinear' */
  readonly interpolation?: 'nearest' | 'bilinear' | 'bicubic';
  /** `stretch` to the wanted size, or `cover` it: keep the aspect, cut what stands over at the centre. @default 'stretch' */
  readonly fit?: 'stretch' | 'cover';
  /** Share of the shorter side that the centre crop keeps, 0..1; below 1 it implies `cover`. @default 1 */
  readonly cropShare?: number;
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
  /** The same without waiting, where all pixels lie in memory. The result is a view: it must not be written to. */
  readSync?(index: number): DecodedImage;
  /** Item `index` decoded straight to [H,W,C], where the source can do both in one go (faster than `read` and a resize). */
  readResized?(
    index: number,
    inputSize: readonly [height: number, width: number, channels: number],
    rule: ResizeRule,
  ): Promise<DecodedImage>;
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
  /** Position after the last item: where the next batch begins, and a resumed epoch goes on. */
  readonly nextOffset: number;
}
