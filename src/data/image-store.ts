import { AlambicError } from '../errors.ts';
import { convertChannels } from './channels.ts';
import { resizeImage } from './decode.ts';
import { resizeNow } from './resize.ts';
import type { DecodedImage, ResizeRule, Source } from './source.ts';

export interface ImageStoreOptions {
  readonly source: Source;
  /** [H,W,C] of every image that comes out. */
  readonly inputSize: readonly [height: number, width: number, channels: number];
  readonly resize?: ResizeRule;
  /** Most bytes of decoded images to keep in memory; 0 keeps none. @default 1 GiB */
  readonly cacheBytes?: number;
}

/** Images per allocation of the cache: memory grows with what is really read. */
const SLAB_BYTES = 16 * 2 ** 20;

/**
 * Images of a source at one size, decoded once and kept while they fit. When the cache is full, what is in it stays: for an order
 * that visits every item once an epoch, throwing out to make room would never hit.
 *
 * One store may serve several loaders (stages, splits) at once.
 */
export class ImageStore {
  readonly source: Source;
  readonly inputSize: readonly [number, number, number];
  readonly itemBytes: number;
  readonly #rule: ResizeRule;
  readonly #capacity: number;
  readonly #perSlab: number;
  readonly #slabs: Uint8Array[] = [];
  /** Place of each item in the cache, -1 where it is not there. */
  readonly #places: Int32Array;
  #used = 0;

  constructor(options: ImageStoreOptions) {
    const { source, inputSize, resize = {}, cacheBytes = 2 ** 30 } = options;
    if (inputSize.some((size) => !Number.isInteger(size) || size < 1)) {
      throw new AlambicError('DATA_SIZE', `expected an input size [H,W,C] of whole numbers >= 1, got [${inputSize}]`, {
        hint: 'For instance `input: [32, 32, 3]`.',
      });
    }
    this.source = source;
    this.inputSize = inputSize;
    this.itemBytes = inputSize[0] * inputSize[1] * inputSize[2];
    this.#rule = resize;
    this.#capacity = Math.min(source.items.length, Math.floor(cacheBytes / this.itemBytes));
    this.#perSlab = Math.max(1, Math.floor(SLAB_BYTES / this.itemBytes));
    this.#places = new Int32Array(source.items.length).fill(-1);
  }

  /** Bytes of decoded images in the cache. */
  get cachedBytes(): number {
    return this.#used * this.itemBytes;
  }

  /** Pixels of an item [H,W,C] where they are at hand without waiting; a view, not to be written to. */
  get(index: number): Uint8Array | undefined {
    const place = this.#places[index]!;
    if (place >= 0) {
      const at = (place % this.#perSlab) * this.itemBytes;
      return this.#slabs[Math.floor(place / this.#perSlab)]!.subarray(at, at + this.itemBytes);
    }
    const image = this.source.readSync?.(index);
    if (image === undefined) return undefined;
    const fitting = this.#fitNow(image, index);
    if (fitting !== undefined && fitting !== image.data) this.#keep(index, fitting);
    return fitting;
  }

  /** Pixels of an item [H,W,C], read and brought to size. Throws `DATA_UNREADABLE`, `DATA_SIZE` or `DATA_CHANNELS`. */
  async load(index: number): Promise<Uint8Array> {
    const ready = this.get(index);
    if (ready !== undefined) return ready;
    const { source, inputSize } = this;
    const [height, width, channels] = inputSize;
    const id = source.items[index]!.id;
    let image = source.readSync?.(index) ?? (await source.readResized?.(index, inputSize, this.#rule));
    if (image === undefined || source.readSync !== undefined) {
      image ??= await source.read(index);
      image = await resizeImage(image, [height, width], this.#rule, id);
    }
    const { data } = convertChannels(image, channels, id);
    this.#keep(index, data);
    return data;
  }

  /** The image at the wanted size where it need not go to another thread. */
  #fitNow(image: DecodedImage, index: number): Uint8Array | undefined {
    const [height, width, channels] = this.inputSize;
    const { id } = this.source.items[index]!;
    const sized = resizeNow(image, [height, width], this.#rule, id);
    return sized === undefined ? undefined : convertChannels(sized, channels, id).data;
  }

  #keep(index: number, data: Uint8Array): void {
    if (this.#used >= this.#capacity || this.#places[index] !== -1) return;
    const place = this.#used++;
    const slab = Math.floor(place / this.#perSlab);
    this.#slabs[slab] ??= new Uint8Array(
      Math.min(this.#perSlab, this.#capacity - slab * this.#perSlab) * this.itemBytes,
    );
    this.#slabs[slab].set(data, (place % this.#perSlab) * this.itemBytes);
    this.#places[index] = place;
  }
}
