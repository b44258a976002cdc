import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32 as nativeCrc32 } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { crc32, crc32ByTable } from '../../../src/engine/runtime/crc32.ts';
import { readZipEntries, unpackEntry } from '../../../src/engine/runtime/zip.ts';
import { fakeLibrary, makeZip, type ZipFile } from './wheel.ts';

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'alambic-zip-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function write(name: string, files: readonly ZipFile[], options?: Parameters<typeof makeZip>[1]): string {
  const path = join(folder, name);
  writeFileSync(path, makeZip(files, options));
  return path;
}

const big = fakeLibrary(300_000);

test('deflated, stored, empty and zip64 entries come out as they went in', async () => {
  const files: ZipFile[] = [
    { name: 'a/deflated', bytes: big },
    { name: 'a/stored', bytes: big.subarray(0, 70_000), stored: true },
    { name: 'empty', bytes: Buffer.alloc(0), stored: true },
    { name: 'wide', bytes: big, wide: true },
  ];
  for (const [name, options] of [
    ['plain.zip', {}],
    ['comment.zip', { comment: `PK\x05\x06 ${'a comment '.repeat(9)}` }],
    ['wide.zip', { wide: true }],
  ] as const) {
    const path = write(name, files, options);
    const entries = await readZipEntries(path);
    expect(entries.map((entry) => entry.name)).toEqual(files.map((file) => file.name));
    for (const [i, entry] of entries.entries()) {
      const target = join(folder, `${name}-${i}`);
      await unpackEntry(path, entry, target, 0o755);
      expect(readFileSync(target).equals(files[i]!.bytes)).toBe(true);
      expect(statSync(target).mode & 0o777).toBe(0o755);
    }
  }
});

test('a wrong checksum, a cut archive and something else are refused', async () => {
  const damaged = write('damaged.zip', [{ name: 'a', bytes: big, damaged: true }]);
  const [entry] = await readZipEntries(damaged);
  await expect(unpackEntry(damaged, entry!, join(folder, 'damaged'), 0o644)).rejects.toThrow(
    /does not fit its checksum/,
  );
  const cut = join(folder, 'cut.zip');
  writeFileSync(cut, readFileSync(damaged).subarray(0, 100_000));
  await expect(readZipEntries(cut)).rejects.toThrow(/no end record/);
  const short = join(folder, 'short.zip');
  writeFileSync(short, 'x');
  await expect(readZipEntries(short)).rejects.toThrow(/no end record/);
});

test("the CRC by table is zlib's, in one piece or several", () => {
  expect(crc32ByTable(Buffer.from('123456789'))).toBe(0xcbf43926);
  expect(crc32ByTable(big)).toBe(nativeCrc32(big));
  expect(crc32ByTable(big.subarray(1000), crc32ByTable(big.subarray(0, 1000)))).toBe(nativeCrc32(big));
  expect(crc32(big.subarray(1000), crc32(big.subarray(0, 1000)))).toBe(nativeCrc32(big));
});
