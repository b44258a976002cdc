import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { decodeImage } from '../../src/data/decode.ts';
import { ImageStore } from '../../src/data/image-store.ts';
import { createLoader, type Loader, type LoaderOptions } from '../../src/data/loader.ts';
import type { HostBatch, Source } from '../../src/data/source.ts';
import { memorySource } from '../../src/data/sources/memory.ts';
import { AlambicError } from '../../src/errors.ts';

/** Item i is an image of 2x2 pixels of the value i. */
function counting(count: number): Source {
  return memorySource({
    images: Uint8Array.from({ length: count * 4 }, (_, i) => i >> 2),
    height: 2,
    width: 2,
    labels: Array.from({ length: count }, (_, i) => i % 3),
    names: ['a', 'b', 'c'],
  });
}

/** The same behind promises that take turns of their own, some of them unreadable. */
function slow(count: number, bad: readonly number[] = [], seen = { now: 0, most: 0, started: 0 }): Source {
  const { readSync, ...source } = counting(count);
  return {
    ...source,
    read: async (index) => {
      seen.started++;
      seen.most = Math.max(seen.most, ++seen.now);
      for (let turn = 0; turn <= (index * 7) % 5; turn++) await new Promise(setImmediate);
      seen.now--;
      if (bad.includes(index)) throw new AlambicError('DATA_UNREADABLE', `cannot read ${index}`, { at: `${index}` });
      return readSync!(index);
    },
  };
}

const base = { inputSize: [2, 2, 1] as const, batchSize: 4 };
async function collect(loader: Loader, epoch = 0, from = 0): Promise<HostBatch[]> {
  const batches: HostBatch[] = [];
  for await (const batch of loader.epoch(epoch, from)) batches.push(batch);
  return batches;
}
const visited = (batches: readonly HostBatch[]) => batches.flatMap(({ indices }) => [...indices]);

/** Every image of a batch is the one that its index says. */
function expectTrue(batch: HostBatch): void {
  expect([...batch.images]).toEqual([...batch.indices].flatMap((index) => [index, index, index, index]));
  expect(batch.shape).toEqual([batch.indices.length, 2, 2, 1]);
}

describe('createLoader', () => {
  it('delivers every item once, the last batch short', async () => {
    for (const source of [counting(10), slow(10)]) {
      const loader = createLoader({ ...base, source, indices: [9, 8, 7, 3, 2, 1] });
      const batches = await collect(loader);
      expect(batches.map(({ shape, offset, nextOffset }) => [shape[0], offset, nextOffset])).toEqual([
        [4, 0, 4],
        [2, 4, 6],
      ]);
      expect(visited(batches)).toEqual([9, 8, 7, 3, 2, 1]);
      expect(batches.flatMap(({ labels }) => [...labels])).toEqual([0, 2, 1, 0, 2, 1]);
      for (const batch of batches) expectTrue(batch);
      expect(loader.batches).toBe(2);
    }
  });

  it('drops a short tail where asked to', async () => {
    const loader = createLoader({ ...base, source: counting(10), tail: 'drop' });
    expect((await collect(loader)).map(({ shape }) => shape[0])).toEqual([4, 4]);
    expect(loader.batches).toBe(2);
  });

  it('takes other labels than those of the source', async () => {
    const labels = Int32Array.from({ length: 10 }, (_, i) => (i < 3 ? 2 : -1));
    const [first] = await collect(createLoader({ ...base, source: counting(10), labels }));
    expect([...first!.labels]).toEqual([2, 2, 2, -1]);
  });

  it('goes on from any batch exactly as the uninterrupted epoch did', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 60 }),
        fc.integer({ min: 1, max: 9 }),
        fc.nat(5),
        fc.nat(100),
        fc.integer({ min: 1, max: 4 }),
        fc.constantFrom('error', 'skip'),
        async (count, batchSize, epoch, seed, prefetch, onUnreadable) => {
          const bad = onUnreadable === 'skip' && count > 3 ? [1, 2] : [];
          const options: LoaderOptions = {
            source: slow(count, bad),
            inputSize: [2, 2, 1],
            batchSize,
            shuffle: true,
            seed,
            onUnreadable,
            maxUnreadableShare: 1,
          };
          const whole = await collect(createLoader({ ...options, prefetch }), epoch);
          const stop = seed % whole.length;
          // Another process: a new loader, other read-ahead, straight to the offset.
          const rest = await collect(
            createLoader({ ...options, prefetch: 1, readers: 2 }),
            epoch,
            whole[stop]!.nextOffset,
          );
          expect(rest).toEqual(whole.slice(stop + 1));
          for (const batch of whole) expectTrue(batch);
        },
      ),
      { numRuns: 60 },
    );
  });

  it('visits the items in an order that does not depend on the batch size', async () => {
    const orders = await Promise.all(
      [1, 3, 64].map(async (batchSize) =>
        visited(await collect(createLoader({ ...base, source: slow(40), batchSize, shuffle: true, seed: 5 }), 2)),
      ),
    );
    expect(orders[1]).toEqual(orders[0]);
    expect(orders[2]).toEqual(orders[0]);
    expect([...orders[0]!].sort((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, i) => i));
  });

  it('survives 1000 interruptions and still delivers the same batches', async () => {
    const seen = { now: 0, most: 0, started: 0 };
    const loader = createLoader({
      ...base,
      source: slow(40, [], seen),
      shuffle: true,
      prefetch: 3,
      readers: 4,
      cacheBytes: 0,
    });
    const whole = await collect(loader, 1);
    let random = 12345;
    for (let i = 0; i < 1000; i++) {
      random = (Math.imul(random, 1103515245) + 12345) >>> 0;
      const stop = (random >>> 16) % 5;
      const got: HostBatch[] = [];
      const epoch = loader.epoch(1);
      for await (const batch of epoch) {
        got.push(batch);
        if (got.length > stop) break;
      }
      expect(visited(got)).toEqual(visited(whole.slice(0, stop + 1)));
      // No read is left behind.
      expect(seen.now).toBe(0);
    }
    expect(await collect(loader, 1)).toEqual(whole);
  });

  it('reads no further ahead than asked and no more at once than there are readers', async () => {
    const seen = { now: 0, most: 0, started: 0 };
    const loader = createLoader({ ...base, source: slow(400, [], seen), prefetch: 3, readers: 5 });
    let delivered = 0;
    for await (const batch of loader.epoch(0)) {
      delivered += batch.shape[0];
      for (let turn = 0; turn < 60; turn++) await new Promise(setImmediate);
      expect(seen.started).toBeLessThanOrEqual(delivered + 3 * 4);
      expect(seen.most).toBeLessThanOrEqual(5);
    }
    expect(seen.most).toBe(5);
    expect(seen.started).toBe(400);
  });

  it('keeps decoded images as far as they fit', async () => {
    const seen = { now: 0, most: 0, started: 0 };
    const source = slow(20, [], seen);
    const store = new ImageStore({ source, inputSize: [2, 2, 1], cacheBytes: 12 * 4 + 3 });
    const loader = createLoader({ ...base, source, store, shuffle: true });
    for (let epoch = 0; epoch < 3; epoch++) for (const batch of await collect(loader, epoch)) expectTrue(batch);
    expect(store.cachedBytes).toBe(48);
    expect(seen.started).toBe(20 + 8 + 8);
  });

  it('ends with the id of an unreadable item, or leaves it out and warns once', async () => {
    const bad = [5, 6];
    await expect(collect(createLoader({ ...base, source: slow(20, bad) }))).rejects.toMatchObject({
      code: 'DATA_UNREADABLE',
      at: '5',
    });
    const warnings: string[] = [];
    const options: LoaderOptions = {
      ...base,
      source: slow(20, bad),
      onUnreadable: 'skip',
      maxUnreadableShare: 0.1,
      onWarning: ({ code, message }) => warnings.push(`${code} ${message}`),
    };
    const loader = createLoader(options);
    const first = await collect(loader);
    expect(first.map(({ shape }) => shape[0])).toEqual([4, 2, 4, 4, 4]);
    expect(visited(first)).toEqual([0, 1, 2, 3, 4, 7, ...Array.from({ length: 12 }, (_, i) => 8 + i)]);
    expect(await collect(loader)).toEqual(first);
    expect(warnings).toEqual(['DATA_UNREADABLE cannot read 5', 'DATA_UNREADABLE cannot read 6']);

    const { readSync, ...rest } = counting(20);
    const atOnce: Source = {
      ...rest,
      readSync: (index) => {
        if (bad.includes(index)) throw new AlambicError('DATA_UNREADABLE', `cannot read ${index}`);
        return readSync!(index);
      },
    };
    expect(await collect(createLoader({ ...options, source: atOnce }))).toEqual(first);

    const filled = await collect(createLoader({ ...options, fillSkipped: true }));
    expect(visited(filled).slice(4, 8)).toEqual([4, 7, 7, 7]);
    for (const batch of filled) expectTrue(batch);
  });

  it('gives up above the allowed share of unreadable items, or where none can be read', async () => {
    const options: LoaderOptions = { ...base, source: slow(20, [1, 2, 3]), onUnreadable: 'skip' };
    await expect(collect(createLoader({ ...options, maxUnreadableShare: 0.1 }))).rejects.toThrow(
      /at most 10 % unreadable items, got 3 of 20 \(15.0 %\); cannot read/,
    );
    const none = createLoader({
      ...options,
      source: slow(3, [0, 1, 2]),
      maxUnreadableShare: 1,
      fillSkipped: true,
    });
    await expect(collect(none)).rejects.toMatchObject({ code: 'DATA_EMPTY' });
  });

  it('passes on other errors than unreadable ones', async () => {
    const source: Source = { ...slow(5), read: () => Promise.reject(new TypeError('a bug')) };
    await expect(collect(createLoader({ ...base, source, onUnreadable: 'skip' }))).rejects.toThrow(TypeError);
  });

  it('ends with the error of an image that does not fit, whatever else is under way', async () => {
    const plain = slow(40);
    const source: Source = {
      ...plain,
      read: async (index) => {
        const image = await plain.read(index);
        if (index < 20) return image;
        await new Promise((resolve) => setTimeout(resolve, 5));
        return { ...image, channels: 2, width: 1 };
      },
    };
    const options = { ...base, source, batchSize: 40, resize: { rule: 'error' } as const };
    for (let i = 0; i < 5; i++)
      await expect(collect(createLoader(options))).rejects.toMatchObject({ code: 'DATA_SIZE' });
    const { readSync } = counting(40);
    const mixed: Source = {
      ...plain,
      read: plain.read,
      readSync: (index) => (index === 30 ? { ...readSync!(index), width: 4, height: 1 } : readSync!(index)),
    };
    await expect(collect(createLoader({ ...options, source: mixed }))).rejects.toMatchObject({ code: 'DATA_SIZE' });
  });

  it('measures the share of the time that its consumer waited', async () => {
    const late: Source = {
      ...slow(12),
      read: async (index) => {
        await new Promise((resolve) => setTimeout(resolve, 30));
        return counting(12).readSync!(index);
      },
    };
    const starving = createLoader({ ...base, source: late, prefetch: 1 });
    await collect(starving);
    expect(starving.wait.share()).toBeGreaterThan(0.8);
    expect(starving.wait.take().waitedMs).toBeGreaterThan(60);
    expect(starving.wait.waitedMs).toBe(0);
    const fed = createLoader({ ...base, source: counting(12) });
    for await (const _ of fed.epoch(0)) await new Promise((resolve) => setTimeout(resolve, 30));
    expect(fed.wait.share()).toBeLessThan(0.2);
    expect(fed.wait.totalMs).toBeGreaterThan(80);
  });

  it('refuses options that make no sense', () => {
    const source = counting(10);
    const code = (options: Partial<LoaderOptions>) => {
      try {
        createLoader({ ...base, source, ...options });
        return 'none';
      } catch (error) {
        return (error as AlambicError).code;
      }
    };
    expect(code({ indices: [] })).toBe('DATA_EMPTY');
    expect(code({ indices: [10] })).toBe('DATA_OPTIONS');
    expect(code({ batchSize: 0 })).toBe('DATA_OPTIONS');
    expect(code({ labels: new Int32Array(3) })).toBe('DATA_OPTIONS');
    expect(code({ inputSize: [0, 2, 1] })).toBe('DATA_SIZE');
  });
});

describe('sizes and channels', () => {
  const gradient = memorySource({
    images: Uint8Array.from({ length: 2 * 6 * 4 }, (_, i) => (i * 5) % 256),
    height: 6,
    width: 4,
    labels: [0, 0],
  });
  const one = async (options: Partial<LoaderOptions>) =>
    (await collect(createLoader({ ...base, source: gradient, ...options })))[0]!;

  it('resizes, pads or refuses images of another size', async () => {
    const resized = await one({ inputSize: [12, 8, 1] });
    expect(resized.shape).toEqual([2, 12, 8, 1]);
    const padded = await one({ inputSize: [8, 8, 1], resize: { rule: 'pad' } });
    const at = (y: number, x: number) => padded.images[y * 8 + x]!;
    expect([at(0, 2), at(1, 1), at(1, 2), at(1, 5), at(6, 5), at(7, 5)]).toEqual([0, 0, 0, 15, 115, 0]);
    await expect(one({ inputSize: [8, 8, 1], resize: { rule: 'error' } })).rejects.toMatchObject({ code: 'DATA_SIZE' });
    await expect(one({ inputSize: [4, 4, 1], resize: { rule: 'pad' } })).rejects.toThrow(/at most 4x4 to pad, got 6x4/);
  });

  it('keeps the centre where it covers or crops', async () => {
    const covered = await one({ inputSize: [4, 4, 1], resize: { fit: 'cover' } });
    expect([...covered.images.subarray(0, 16)]).toEqual(Array.from({ length: 16 }, (_, i) => 5 * (i + 4)));
    const cropped = await one({ inputSize: [6, 4, 1], resize: { cropShare: 0.5 } });
    // The image is doubled and its middle cut out: symmetric about the mean.
    expect(cropped.images.subarray(0, 24).reduce((a, b) => a + b) / 24).toBeCloseTo(57.5, 1);
    expect(Math.min(...cropped.images.subarray(0, 24))).toBeGreaterThan(20);
  });

  it('makes colour of grey and grey of colour', async () => {
    const colour = await one({ inputSize: [6, 4, 3] });
    expect([...colour.images.subarray(0, 9)]).toEqual([0, 0, 0, 5, 5, 5, 10, 10, 10]);
    const rgb = memorySource({
      images: Uint8Array.of(255, 0, 0, 0, 255, 0),
      height: 1,
      width: 2,
      channels: 3,
      labels: [0],
    });
    const [grey] = await collect(createLoader({ source: rgb, inputSize: [1, 2, 1], batchSize: 1 }));
    expect([...grey!.images]).toEqual([76, 150]);
    await expect(collect(createLoader({ source: rgb, inputSize: [1, 2, 2], batchSize: 1 }))).rejects.toMatchObject({
      code: 'DATA_CHANNELS',
    });
  });

  it('gives the same image whether a source resizes while it decodes or the loader afterwards', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'alambic-loader-'));
    const path = join(folder, 'a.png');
    const pixels = Uint8Array.from({ length: 30 * 20 * 3 }, (_, i) => (i * 37) % 256);
    await writeFile(
      path,
      await sharp(pixels, { raw: { width: 20, height: 30, channels: 3 } })
        .png()
        .toBuffer(),
    );
    const plain: Source = { name: 'a', labels: ['x'], items: [{ id: 'a', label: 0 }], read: () => decodeImage(path) };
    const direct: Source = {
      ...plain,
      readResized: (_, [height, width], rule) => decodeImage(path, { size: [height, width], rule }),
    };
    const rules = [{}, { fit: 'cover' }, { cropShare: 0.8, interpolation: 'bicubic' }] as const;
    for (const [resize, side] of rules.flatMap((rule) => [16, 400].map((size) => [rule, size] as const))) {
      const options = { inputSize: [side, side, 3] as const, batchSize: 1, resize };
      const [a] = await collect(createLoader({ ...options, source: plain }));
      const [b] = await collect(createLoader({ ...options, source: direct }));
      expect(Buffer.compare(a!.images, b!.images)).toBe(0);
    }
  });
});
