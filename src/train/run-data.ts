import { ImageStore, type ImageStoreOptions } from '../data/image-store.ts';
import { createLoader, type Loader } from '../data/loader.ts';
import type { Source } from '../data/source.ts';
import { ownSplits, type SplitRules, type Splits, selectLabelled, splitItems } from '../data/split.ts';
import { AlambicError, unknownName } from '../errors.ts';
import type { Preprocessing } from '../nn/module.ts';
import type { RunEvent, Transform } from '../plugin-host/contract.ts';
import type { Preparation } from './step.ts';

export interface RunDataInput {
  readonly source: Source;
  readonly splits: SplitRules | undefined;
  /** [H,W,C] of the decoded batch, before transforms. */
  readonly inputSize: readonly [number, number, number];
  readonly resize?: ImageStoreOptions['resize'];
  readonly cacheBytes?: number | undefined;
  readonly mean: readonly number[];
  readonly std: readonly number[];
  readonly seed: number;
  readonly readers?: number | undefined;
  readonly prefetch?: number | undefined;
  readonly onUnreadable?: 'error' | 'skip' | undefined;
  readonly emit: (event: RunEvent) => void;
}

/** Which of the training items a stage sees, and with which labels. */
export interface StageSelection {
  /** Number of items (or numbers by class) that keep their label. */
  readonly labelled?: number | Readonly<Record<string, number>> | undefined;
  /** `labelled`: only those with a label are seen at all. @default 'all' */
  readonly use?: 'all' | 'labelled' | undefined;
  /** Times that each item is seen in one epoch. @default 1 */
  readonly repeat?: number | undefined;
}

/** The data of a run: one source, its splits, and loaders that share one store of decoded images. */
export class RunData {
  readonly source: Source;
  readonly splits: Splits;
  readonly #input: RunDataInput;
  readonly #store: ImageStore;

  constructor(input: RunDataInput) {
    this.#input = input;
    this.source = input.source;
    const own = ownSplits(input.source.items);
    const rules =
      input.splits ??
      (own.length > 0 ? Object.fromEntries(own.map((name) => [name, name])) : { train: 0.8, dev: 0.1, test: 0.1 });
    this.splits = splitItems(input.source, rules, String(input.seed));
    if (this.splits['train'] === undefined) {
      throw new AlambicError('DATA_SPLIT', `expected a split "train", got ${Object.keys(this.splits).join(', ')}`, {
        hint: 'Name the split that is trained on `train`; `dev` is evaluated after each epoch and `test` at the end.',
      });
    }
    this.#store = new ImageStore({
      source: input.source,
      inputSize: input.inputSize,
      ...(input.resize === undefined ? {} : { resize: input.resize }),
      ...(input.cacheBytes === undefined ? {} : { cacheBytes: input.cacheBytes }),
    });
  }

  get labels(): readonly string[] {
    return this.source.labels;
  }

  get inputSize(): readonly [number, number, number] {
    return this.#input.inputSize;
  }

  /** Split that is evaluated after each epoch: `dev`, or none. */
  get watched(): string | undefined {
    return this.splits['dev'] === undefined ? undefined : 'dev';
  }

  /** Split of the final numbers: `test`, else `dev`. */
  get heldOut(): string | undefined {
    return this.splits['test'] === undefined ? this.watched : 'test';
  }

  /** Number of training items that a stage sees with a label. */
  labelledItems(selection: StageSelection): number {
    const { indices, labelOf } = this.#select(selection);
    return indices.reduce((n, index) => n + (labelOf(index) >= 0 ? 1 : 0), 0);
  }

  trainLoader(selection: StageSelection, batchSize: number, seed: number): Loader {
    const { indices, labels } = this.#select(selection);
    const { repeat = 1 } = selection;
    const seen = new Int32Array(indices.length * repeat);
    for (let i = 0; i < repeat; i++) seen.set(indices, i * indices.length);
    return this.#loader({ indices: seen, batchSize, shuffle: true, seed, ...(labels === undefined ? {} : { labels }) });
  }

  #select(selection: StageSelection) {
    const train = this.#split('train');
    const labels =
      selection.labelled === undefined
        ? undefined
        : selectLabelled(this.source, train, selection.labelled, String(this.#input.seed));
    const labelOf = (index: number) => (labels === undefined ? this.source.items[index]!.label : labels[index]!);
    const indices = selection.use === 'labelled' ? train.filter((index) => labelOf(index) >= 0) : train;
    return { indices, labels, labelOf };
  }

  /** All items of a split in its order. `limit` takes the first few, for dry runs. */
  evaluationLoader(split: string, batchSize: number, limit?: number): Loader {
    const indices = this.#split(split);
    return this.#loader({ indices: limit === undefined ? indices : indices.subarray(0, limit), batchSize });
  }

  /** What happens to a batch on the device; the size it leaves with is the network's. */
  preparation(transforms: readonly Transform[]): Preparation {
    return { transforms, mean: this.#input.mean, std: this.#input.std };
  }

  /** What travels with a model: how its images must be prepared. */
  preprocessing(networkSize: readonly [number, number, number]): Preprocessing {
    const channels = networkSize[2];
    const spread = (values: readonly number[]) =>
      Array.from({ length: channels }, (_, i) => values[i % values.length]!);
    return {
      inputSize: networkSize,
      mean: spread(this.#input.mean),
      std: spread(this.#input.std),
      interpolation: this.#input.resize?.interpolation === 'bicubic' ? 'bicubic' : 'bilinear',
      cropShare: this.#input.resize?.cropShare ?? 1,
    };
  }

  async close(): Promise<void> {
    await this.source.close?.();
  }

  #split(name: string): Int32Array {
    const indices = this.splits[name];
    if (indices === undefined) throw unknownName('UNKNOWN_SPLIT', 'split', name, Object.keys(this.splits));
    return indices;
  }

  #loader(options: {
    indices: Int32Array;
    batchSize: number;
    shuffle?: boolean;
    seed?: number;
    labels?: Int32Array;
  }): Loader {
    const { readers, prefetch, onUnreadable, emit, inputSize } = this.#input;
    return createLoader({
      source: this.source,
      store: this.#store,
      inputSize,
      ...options,
      ...(readers === undefined ? {} : { readers }),
      ...(prefetch === undefined ? {} : { prefetch }),
      ...(onUnreadable === undefined ? {} : { onUnreadable }),
      onWarning: (warning) => emit({ type: 'warning', ...warning }),
    });
  }
}
