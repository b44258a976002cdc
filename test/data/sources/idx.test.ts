import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import idx from '../../../src/data/sources/idx.ts';
import { memorySource } from '../../../src/data/sources/memory.ts';
import { serializeIdx } from '../../../src/formats/idx.ts';

const images = (count: number, start = 0) =>
  serializeIdx({
    type: 'uint8',
    shape: [count, 2, 3],
    data: Uint8Array.from({ length: count * 6 }, (_, i) => start + i),
  });
const labels = (...values: number[]) =>
  serializeIdx({ type: 'uint8', shape: [values.length], data: Uint8Array.from(values) });

async function folderWith(files: Record<string, Uint8Array>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'alambic-idx-'));
  for (const [name, bytes] of Object.entries(files)) await writeFile(join(folder, name), bytes);
  return folder;
}
const open = (base: string, options: object) => new idx.implementation(idx.options.parse(options), base).open();

describe('idx source', () => {
  it('reads one pair of files', async () => {
    const base = await folderWith({ 'x.idx': images(3), 'y.idx': labels(1, 0, 2) });
    const source = await open(base, { images: 'x.idx', labels: 'y.idx', names: ['a', 'b', 'c'] });
    expect(source.labels).toEqual(['a', 'b', 'c']);
    expect(source.items.map(({ label }) => label)).toEqual([1, 0, 2]);
    expect(source.readSync?.(1)).toEqual({ data: Uint8Array.of(6, 7, 8, 9, 10, 11), height: 2, width: 3, channels: 1 });
  });

  it('reads the four standard files, gzip or plain, with their own splits', async () => {
    const base = await folderWith({
      'train-images-idx3-ubyte.gz': gzipSync(images(2)),
      'train-labels-idx1-ubyte.gz': gzipSync(labels(0, 1)),
      't10k-images.idx3-ubyte': images(1, 100),
      't10k-labels.idx1-ubyte': labels(1),
    });
    const source = await open(base, { folder: '.' });
    expect(source.items).toEqual([
      { id: 'train/0', label: 0 },
      { id: 'train/1', label: 1 },
      { id: 'test/0', label: 1 },
    ]);
    expect([...(await source.read(2)).data]).toEqual([100, 101, 102, 103, 104, 105]);
  });

  it('says what does not fit', async () => {
    const base = await folderWith({ 'x.idx': images(3), 'y.idx': labels(1, 0), 'z.idx': labels(0, 1, 9) });
    await expect(open(base, { images: 'x.idx', labels: 'y.idx' })).rejects.toMatchObject({ code: 'DATA_SHAPE' });
    await expect(open(base, { images: 'y.idx', labels: 'x.idx' })).rejects.toThrow(/expected uint8 images/);
    await expect(open(base, { images: 'x.idx', labels: 'z.idx', names: ['a', 'b'] })).rejects.toMatchObject({
      code: 'DATA_LABEL',
    });
    await expect(open(base, { images: 'x.idx' })).rejects.toMatchObject({ code: 'DATA_OPTIONS' });
    await expect(open(base, { images: 'x.idx', labels: 'z.idx', folder: '.' })).rejects.toMatchObject({
      code: 'DATA_OPTIONS',
    });
    await expect(open(base, { folder: '.' })).rejects.toThrow(/train-images-idx3-ubyte/);
    await expect(open(base, { images: 'none', labels: 'z.idx' })).rejects.toMatchObject({ code: 'DATA_MISSING' });
  });
});

describe('memorySource', () => {
  it('refuses arrays that do not fit each other', () => {
    const pixels = new Uint8Array(8);
    expect(() => memorySource({ images: pixels, height: 2, width: 2, labels: [0] })).toThrow(/expected 4 bytes/);
    expect(() => memorySource({ images: pixels, height: 2, width: 2, labels: [0, 0], ids: ['x'] })).toThrow(/2 ids/);
    expect(() => memorySource({ images: pixels, height: 2, width: 2, labels: [0, 1], names: ['x'] })).toThrow(
      expect.objectContaining({ code: 'DATA_LABEL' }),
    );
  });
});
