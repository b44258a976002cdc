import { mkdir, mkdtemp, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import sharp, { type Color } from 'sharp';
import { describe, expect, it } from 'vitest';
import { createLoader } from '../../../src/data/loader.ts';
import type { Source } from '../../../src/data/source.ts';
import imageFolder from '../../../src/data/sources/image-folder.ts';

async function makeFolder(files: Record<string, Uint8Array | string>): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'alambic-folder-'));
  for (const [name, content] of Object.entries(files)) {
    const path = join(root, name);
    await mkdir(name.endsWith('/') ? path : dirname(path), { recursive: true });
    if (!name.endsWith('/')) await writeFile(path, content);
  }
  return root;
}

const solid = (width: number, height: number, background: Color) =>
  sharp({ create: { width, height, channels: 3, background } });
const open = (folder: string, options: object = {}): Promise<Source> =>
  new imageFolder.implementation(imageFolder.options.parse({ folder, ...options }), '/').open();

describe('image-folder', () => {
  it('lists classes in natural order, keeps the empty one, ignores what is hidden or no image', async () => {
    const png = await solid(2, 2, 'red').png().toBuffer();
    const root = await makeFolder({
      '10/a.png': png,
      '2/deep/er/b.PNG': png,
      '2/img10.png': png,
      '2/img9.png': png,
      '1/': '',
      '0/.hidden.png': png,
      '0/._x.png': png,
      '0/c.jpeg': await solid(2, 2, 'red').jpeg().toBuffer(),
      '0/notes.txt': 'x',
      '.git/d.png': png,
      '__MACOSX/e.png': png,
      'loose.png': png,
    });
    const source = await open(root);
    expect(source.labels).toEqual(['0', '1', '2', '10']);
    expect(source.items).toEqual([
      { id: '0/c.jpeg', label: 0 },
      { id: '2/deep/er/b.PNG', label: 2 },
      { id: '2/img9.png', label: 2 },
      { id: '2/img10.png', label: 2 },
      { id: '10/a.png', label: 3 },
    ]);
  });

  it('takes the order of given labels and refuses lists that do not match', async () => {
    const png = await solid(2, 2, 'red').png().toBuffer();
    const root = await makeFolder({ 'cat/a.png': png, 'dog/b.png': png });
    const source = await open(root, { labels: ['dog', 'cat'] });
    expect(source.items.map(({ id, label }) => [id, label])).toEqual([
      ['dog/b.png', 0],
      ['cat/a.png', 1],
    ]);
    await expect(open(root, { labels: ['cats', 'dog'] })).rejects.toThrow(/no "cats" \(did you mean "cat"\?\)/);
    await expect(open(root, { labels: ['cat'] })).rejects.toMatchObject({ code: 'LABELS_MISMATCH' });
    await expect(open(root, { labels: ['cat', 'dog', 'cat'] })).rejects.toMatchObject({ code: 'LABELS_MISMATCH' });
  });

  it('reads folders of splits, with the labels of all of them', async () => {
    const png = await solid(2, 2, 'red').png().toBuffer();
    const root = await makeFolder({ 'train/cat/a.png': png, 'train/dog/b.png': png, 'val/dog/c.png': png });
    const source = await open(root, { splits: ['train', 'val'] });
    expect(source.labels).toEqual(['cat', 'dog']);
    expect(source.items.map(({ id }) => id)).toEqual(['train/cat/a.png', 'train/dog/b.png', 'val/dog/c.png']);
    await expect(open(root, { splits: ['train', 'test'] })).rejects.toMatchObject({ code: 'DATA_MISSING' });
  });

  it('follows links once and reports one that leads nowhere when it is read', async () => {
    const png = await solid(2, 2, 'red').png().toBuffer();
    const root = await makeFolder({ 'cat/a.png': png, 'dog/b.png': png });
    await symlink(join(root, 'cat'), join(root, 'cat', 'circle'));
    await symlink(join(root, 'dog'), join(root, 'hound'));
    await symlink(join(root, 'nowhere.png'), join(root, 'dog', 'c.png'));
    const source = await open(root);
    expect(source.items.map(({ id }) => id)).toEqual([
      'cat/a.png',
      'dog/b.png',
      'dog/c.png',
      'hound/b.png',
      'hound/c.png',
    ]);
    await expect(source.read(2)).rejects.toMatchObject({ code: 'DATA_UNREADABLE', at: 'dog/c.png' });
  });

  it('says what is missing', async () => {
    await expect(open(join(tmpdir(), 'alambic-none'))).rejects.toMatchObject({ code: 'DATA_MISSING' });
    await expect(open(await makeFolder({}))).rejects.toMatchObject({ code: 'DATA_EMPTY' });
    await expect(open(await makeFolder({ 'a/x.txt': '' }))).rejects.toMatchObject({ code: 'DATA_EMPTY' });
  });

  it('decodes to uint8: alpha on the background, EXIF turned, 16 bits and grey converted', async () => {
    const clear = { r: 255, g: 0, b: 0, alpha: 0 };
    const half = solid(2, 1, { r: 10, g: 20, b: 30 });
    const root = await makeFolder({
      'a/alpha.png': await sharp({ create: { width: 1, height: 1, channels: 4, background: clear } })
        .png()
        .toBuffer(),
      'a/deep.png': await half.clone().toColourspace('rgb16').png().toBuffer(),
      'a/grey.png': await sharp(Uint8Array.of(7, 9), { raw: { width: 2, height: 1, channels: 1 } })
        .toColourspace('b-w')
        .png()
        .toBuffer(),
      'a/turned.jpg': await solid(8, 4, 'white').withMetadata({ orientation: 6 }).jpeg().toBuffer(),
    });
    const source = await open(root, { background: '#0102ff' });
    expect([...(await source.read(0)).data]).toEqual([1, 2, 255]);
    expect(await source.read(1)).toMatchObject({ height: 1, width: 2, channels: 3 });
    expect([...(await source.read(1)).data]).toEqual([10, 20, 30, 10, 20, 30]);
    expect([...(await source.read(2)).data]).toEqual([7, 7, 7, 9, 9, 9]);
    expect(await source.read(3)).toMatchObject({ height: 8, width: 4, channels: 3 });
    const grey = await open(root, { channels: 1 });
    expect(await grey.read(2)).toMatchObject({ height: 1, width: 2, channels: 1, data: Buffer.from([7, 9]) });
    // BT.601 of (10, 20, 30), to the rounding of the library.
    expect(Math.abs((await grey.read(1)).data[0]! - (0.299 * 10 + 0.587 * 20 + 0.114 * 30))).toBeLessThanOrEqual(1);
  });

  it('resizes while decoding: stretched, or covered and cut at the centre', async () => {
    const wide = await sharp({
      create: { width: 40, height: 20, channels: 3, background: 'black' },
    })
      .composite([{ input: await solid(20, 20, 'white').png().toBuffer(), left: 10, top: 0 }])
      .png()
      .toBuffer();
    const root = await makeFolder({ 'a/wide.png': wide });
    const mean = (data: Uint8Array) => data.reduce((sum, value) => sum + value, 0) / data.length;
    const stretched = await (await open(root, { resize: [10, 10] })).read(0);
    expect(stretched).toMatchObject({ height: 10, width: 10, channels: 3 });
    expect(mean(stretched.data)).toBeCloseTo(127.5, -1);
    const covered = await (await open(root, { resize: 10, fit: 'cover' })).read(0);
    expect(mean(covered.data)).toBeGreaterThan(245);
  });

  it('reports a file that is cut short or no image', async () => {
    const noise = sharp({
      create: {
        width: 64,
        height: 64,
        channels: 3,
        background: 'red',
        noise: { type: 'gaussian', mean: 128, sigma: 40 },
      },
    });
    const jpeg = await noise.jpeg().toBuffer();
    const root = await makeFolder({
      'a/cut.jpg': jpeg.subarray(0, jpeg.length / 2),
      'a/text.png': 'not an image',
      'a/void.png': '',
    });
    const source = await open(root);
    for (const [index, { id }] of source.items.entries()) {
      await expect(source.read(index)).rejects.toMatchObject({ code: 'DATA_UNREADABLE', at: id });
    }
  });

  it('goes through the loader, an image that is cut short left out or the end, by rule', async () => {
    const files: Record<string, Uint8Array> = {};
    for (let i = 0; i < 9; i++) {
      files[`${i % 2 === 0 ? 'even' : 'odd'}/${i}.jpg`] = await solid(24 + i, 18, { r: 20 * i, g: 100, b: 50 })
        .jpeg({ quality: 100, chromaSubsampling: '4:4:4' })
        .toBuffer();
    }
    files['odd/7.jpg'] = files['odd/7.jpg']!.subarray(0, files['odd/7.jpg']!.length - 12);
    const source = await open(await makeFolder(files));
    const options = { source, inputSize: [16, 16, 3] as const, batchSize: 4 };
    const failing = createLoader(options);
    await expect(failing.epoch(0, 8).next()).rejects.toMatchObject({ code: 'DATA_UNREADABLE', at: 'odd/7.jpg' });

    const warnings: string[] = [];
    const loader = createLoader({
      ...options,
      onUnreadable: 'skip',
      maxUnreadableShare: 0.2,
      onWarning: ({ message }) => warnings.push(message),
    });
    for (let epoch = 0; epoch < 2; epoch++) {
      const ids: string[] = [];
      for await (const { images, indices, labels } of loader.epoch(epoch)) {
        for (const [k, index] of indices.entries()) {
          const { id, label } = source.items[index]!;
          ids.push(id);
          expect(labels[k]).toBe(label);
          // One colour each, up to what JPEG makes of it.
          const red = images[k * 768]!;
          expect(Math.abs(red - 20 * Number.parseInt(id.split('/')[1]!, 10))).toBeLessThanOrEqual(3);
        }
      }
      expect(ids).toEqual([0, 2, 4, 6, 8, 1, 3, 5].map((i) => `${i % 2 === 0 ? 'even' : 'odd'}/${i}.jpg`));
    }
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain('odd/7.jpg');
  });
});
