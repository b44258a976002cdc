import { execFile, fork } from 'node:child_process';
import nodeFs, { type FileHandle, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { tensorData } from '../../src/formats/tensor-data.ts';
import { identityToText, thisProcess } from '../../src/process-identity.ts';
import { readCheckpoint, readCheckpointSummary, writeCheckpoint } from '../../src/train/checkpoint.ts';
import { findLatestCheckpoint, listCheckpoints } from '../../src/train/checkpoint-search.ts';
import type { FileSystem } from '../../src/train/file-errors.ts';
import { cleanLeftovers } from '../../src/train/leftovers.ts';
import { contentOf } from './checkpoint-writer.ts';

let run: string;
let checkpoints: string;
beforeEach(async () => {
  run = await mkdtemp(join(tmpdir(), 'alambic-checkpoint-'));
  checkpoints = join(run, 'checkpoints');
  await mkdir(checkpoints);
});
afterEach(() => rm(run, { recursive: true }));

/** A file system on which one call fails with the given error code. */
function failing(call: keyof FileSystem, code: string, when: (...args: unknown[]) => boolean = () => true): FileSystem {
  const fail = () => Promise.reject(Object.assign(new Error(`${code}: injected`), { code }));
  return new Proxy<FileSystem>(nodeFs, {
    get: (target, name: keyof FileSystem) =>
      name === call
        ? (...args: unknown[]) => (when(...args) ? fail() : (target[call] as (...args: unknown[]) => unknown)(...args))
        : target[name],
  });
}

/** A file system that is full after so many bytes: the last write is taken in part, as real disks do. */
function fullAfter(capacity: number): FileSystem {
  let left = capacity;
  const limit = (handle: FileHandle) =>
    new Proxy(handle, {
      get(target, name: keyof FileHandle) {
        if (name !== 'write') {
          const value: unknown = target[name];
          return typeof value === 'function' ? value.bind(target) : value;
        }
        return async (buffer: Uint8Array, offset: number, length: number, position: number | null) => {
          if (left === 0) throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
          const taken = Math.min(left, length);
          left -= taken;
          return target.write(buffer, offset, taken, position);
        };
      },
    });
  return new Proxy<FileSystem>(nodeFs, {
    get: (target, name: keyof FileSystem) =>
      name === 'open' ? async (path: string, flags: string) => limit(await nodeFs.open(path, flags)) : target[name],
  });
}

/** Identity of a process that has certainly ended. */
async function deadOwner(): Promise<string> {
  const child = execFile(process.execPath, ['-e', '']);
  await new Promise((done) => child.once('exit', done));
  return identityToText({ ...thisProcess(), pid: child.pid! });
}

describe('writing and reading', () => {
  it('gives everything back: arrays, texts, JSON with its odd numbers', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.dictionary(fc.string(), fc.float32Array({ maxLength: 20 }), { maxKeys: 4 }),
        fc.dictionary(fc.string(), fc.oneof(fc.double(), fc.string(), fc.constant(null), fc.array(fc.double()))),
        fc.string({ unit: 'grapheme' }),
        async (arrays, manifest, text) => {
          const record = Object.fromEntries(Object.entries(arrays).map(([name, data]) => [name, tensorData(data)]));
          const folder = join(checkpoints, 'e1');
          await writeCheckpoint(folder, { manifest, tensors: { 'a.safetensors': record }, texts: { 'b.txt': text } });
          const back = await readCheckpoint(folder);
          expect({ ...back.manifest }).toEqual({ ...manifest });
          expect(back.tensors).toEqual({ 'a.safetensors': record });
          expect(back.texts).toEqual({ 'b.txt': text });
        },
      ),
      { numRuns: 40 },
    );
    expect(await readdir(checkpoints)).toEqual(['e1']);
  });

  it('numbers checkpoints and finds the latest by number, whatever the clock says', async () => {
    await writeCheckpoint(join(checkpoints, 'b'), contentOf(1), { now: () => new Date('2030-01-01') });
    await writeCheckpoint(join(checkpoints, 'a'), contentOf(2), { now: () => new Date('2020-01-01') });
    const latest = await findLatestCheckpoint(run);
    expect(latest).toMatchObject({ sequence: 2, savedAt: '2020-01-01T00:00:00.000Z', manifest: { n: 2 } });
    expect((await listCheckpoints(run)).map(({ sequence }) => sequence)).toEqual([2, 1]);
    expect((await findLatestCheckpoint(checkpoints))?.sequence).toBe(2);
  });

  it('reads chosen files only', async () => {
    const folder = join(checkpoints, 'e1');
    await writeCheckpoint(folder, contentOf(1));
    const { tensors, texts } = await readCheckpoint(folder, { files: ['optimizer.safetensors'] });
    expect(Object.keys(tensors)).toEqual(['optimizer.safetensors']);
    expect(texts).toEqual({});
  });

  it('has hashes that the sha256sum tool agrees with', async () => {
    const folder = join(checkpoints, 'e1');
    const { files } = await writeCheckpoint(folder, contentOf(1));
    const { stdout } = await promisify(execFile)('sha256sum', ['-c', 'manifest.sha256'], { cwd: folder });
    expect(stdout).toBe('manifest.json: OK\n');
    const sum = await promisify(execFile)('sha256sum', ['model.safetensors'], { cwd: folder });
    expect(sum.stdout.slice(0, 64)).toBe(files['model.safetensors']!.sha256);
  });

  it('refuses content that JSON would change, and file names that are none', async () => {
    const folder = join(checkpoints, 'e1');
    const write = (manifest: object, file = 'a.safetensors') =>
      writeCheckpoint(folder, { manifest, tensors: { [file]: {} } });
    await expect(write({ a: { b: [1, 5n] } })).rejects.toMatchObject({
      code: 'CHECKPOINT_CONTENT',
      message: 'manifest.a.b[1]: expected plain JSON data, got a bigint',
    });
    await expect(write({ a: new Float32Array(2) })).rejects.toThrow(
      'manifest.a: expected plain JSON data, got a Float32Array',
    );
    for (const file of ['../a', 'a/b', 'manifest.json', '', '.x'])
      await expect(write({}, file)).rejects.toMatchObject({ code: 'CHECKPOINT_CONTENT' });
    expect(await readdir(checkpoints)).toEqual([]);
  });

  it('is undefined where nothing was saved, an error where the folder is none', async () => {
    expect(await findLatestCheckpoint(run)).toBeUndefined();
    expect(await findLatestCheckpoint(join(run, 'nowhere'))).toBeUndefined();
    await expect(readCheckpoint(join(run, 'nowhere'))).rejects.toMatchObject({ code: 'CHECKPOINT_MISSING' });
  });
});

describe('damage', () => {
  const flip = async (path: string) => {
    const bytes = await readFile(path);
    bytes[bytes.length - 5]! ^= 1;
    await writeFile(path, bytes);
  };
  const damages: [what: string, damage: (folder: string) => Promise<void>, message: RegExp][] = [
    [
      'a flipped bit',
      (at) => flip(join(at, 'model.safetensors')),
      /model\.safetensors of checkpoint "e2": its sha256 is/,
    ],
    [
      'a cut file',
      (at) => truncate(join(at, 'model.safetensors'), 100),
      /model\.safetensors .* expected 200080 bytes, got 100/,
    ],
    ['a missing file', (at) => rm(join(at, 'optimizer.safetensors')), /optimizer\.safetensors .* it is missing/],
    ['a changed text', (at) => writeFile(join(at, 'recipe.yaml'), 'n: 3\n'), /recipe\.yaml .* its sha256 is/],
    ['a longer text', (at) => writeFile(join(at, 'recipe.yaml'), 'n: 2\n#'), /recipe\.yaml .* expected 5 bytes, got 6/],
    ['a changed manifest', (at) => flip(join(at, 'manifest.json')), /manifest\.json .* its sha256 is/],
    ['an empty manifest', (at) => truncate(join(at, 'manifest.json')), /manifest\.json .* its sha256 is/],
    ['a missing manifest', (at) => rm(join(at, 'manifest.json')), /manifest\.json .* it is missing/],
    ['a missing hash of it', (at) => rm(join(at, 'manifest.sha256')), /manifest\.sha256 .* it is missing/],
    ['an empty folder', (at) => rm(at, { recursive: true }).then(() => mkdir(at)), /it is missing/],
  ];

  it.each(damages)('%s: named, and the previous checkpoint is taken', async (_, damage, message) => {
    await writeCheckpoint(join(checkpoints, 'e1'), contentOf(1));
    await writeCheckpoint(join(checkpoints, 'e2'), contentOf(2));
    await damage(join(checkpoints, 'e2'));
    await expect(readCheckpoint(join(checkpoints, 'e2'))).rejects.toMatchObject({
      code: 'CHECKPOINT_DAMAGED',
      message: expect.stringMatching(message),
    });
    const warnings: string[] = [];
    const latest = await findLatestCheckpoint(run, { warn: (code, text) => warnings.push(`${code} ${text}`) });
    expect(latest?.manifest).toEqual({ n: 1 });
    expect(latest?.tensors).toEqual(contentOf(1).tensors);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(/^CHECKPOINT_DAMAGED .*; going on from checkpoint "e1"$/);
  });

  it('says so where no checkpoint is good', async () => {
    await writeCheckpoint(join(checkpoints, 'e1'), contentOf(1));
    await flip(join(checkpoints, 'e1', 'model.safetensors'));
    await expect(findLatestCheckpoint(run)).rejects.toMatchObject({
      code: 'CHECKPOINT_DAMAGED',
      message: expect.stringMatching(/^none of the 1 checkpoints is good: model\.safetensors/),
    });
  });

  it('refuses one of a newer version instead of falling back behind it', async () => {
    const folder = join(checkpoints, 'e1');
    await writeCheckpoint(folder, contentOf(1));
    const text = (await readFile(join(folder, 'manifest.json'), 'utf8')).replace('"version": 1', '"version": 2');
    await writeFile(join(folder, 'manifest.json'), text);
    const { stdout } = await promisify(execFile)('sha256sum', ['manifest.json'], { cwd: folder });
    await writeFile(join(folder, 'manifest.sha256'), stdout);
    await expect(findLatestCheckpoint(run)).rejects.toMatchObject({ code: 'CHECKPOINT_VERSION' });
  });
});

describe('disks that refuse', () => {
  const folder = () => join(checkpoints, 'e1');
  const expectUntouched = async () => {
    expect(await readdir(checkpoints)).toEqual(['e1']);
    expect((await readCheckpoint(folder())).tensors).toEqual(contentOf(1).tensors);
  };
  beforeEach(async () => {
    await writeCheckpoint(folder(), contentOf(1));
  });

  it('a full disk at any byte: its own error, the old checkpoint untouched, nothing left over', async () => {
    const total = 202_000;
    for (const capacity of [0, 1, 60, 100, 100_000, 200_079, 200_080, 200_100, 200_200, 200_300, 200_800]) {
      expect(capacity).toBeLessThan(total);
      await expect(writeCheckpoint(folder(), contentOf(2), { fs: fullAfter(capacity) })).rejects.toMatchObject({
        code: 'CHECKPOINT_NO_SPACE',
        message: expect.stringMatching(/^no space left for checkpoint "e1", it needs 0\.20 MB, [\d.]+ MB are free$/),
        hint: expect.stringContaining('--resume'),
      });
      await expectUntouched();
    }
    await writeCheckpoint(folder(), contentOf(2), { fs: fullAfter(total) });
    expect((await readCheckpoint(folder())).manifest).toEqual({ n: 2 });
  });

  it.each(['EACCES', 'EROFS', 'EPERM'])('no right to write (%s)', async (code) => {
    for (const fs of [failing('mkdir', code, (path) => String(path).includes('.tmp-')), failing('rename', code)]) {
      const error = expect.objectContaining({ code: 'RUN_FOLDER_READ_ONLY', at: folder() });
      await expect(writeCheckpoint(folder(), contentOf(2), { fs })).rejects.toEqual(error);
      await expectUntouched();
    }
  });

  it('a rename that fails after the old one was moved aside: the old one is moved back', async () => {
    const fs = failing('rename', 'EIO', (from) => String(from).includes('.tmp-'));
    await expect(writeCheckpoint(folder(), contentOf(2), { fs })).rejects.toMatchObject({ code: 'WRITE_FAILED' });
    await expectUntouched();
  });

  it('a file where a folder is needed', async () => {
    await writeFile(join(run, 'file'), '');
    for (const path of [join(run, 'file'), join(run, 'file', 'e1')])
      await expect(writeCheckpoint(path, contentOf(1))).rejects.toMatchObject({ code: 'RUN_FOLDER_IS_FILE' });
  });
});

describe('leftovers', () => {
  it('of dead processes are cleaned, of living ones kept, and a replaced one is put back', async () => {
    const dead = await deadOwner();
    const alive = identityToText(thisProcess());
    await writeCheckpoint(join(checkpoints, 'e1'), contentOf(1));
    await writeCheckpoint(join(checkpoints, 'e2'), contentOf(2));
    // Killed between the two renames of an overwrite: the only e2 is the one moved aside.
    await nodeFs.rename(join(checkpoints, 'e2'), join(checkpoints, `e2.old-${dead}`));
    await mkdir(join(checkpoints, `e3.tmp-${dead}`));
    await mkdir(join(checkpoints, `e4.gone-${dead}`));
    await mkdir(join(checkpoints, `e1.old-${dead}`));
    await mkdir(join(checkpoints, `e5.tmp-${alive}`));
    await mkdir(join(checkpoints, `e6.tmp-7-00000000-7`));
    expect((await findLatestCheckpoint(run))?.manifest).toEqual({ n: 2 });
    expect((await readdir(checkpoints)).sort()).toEqual(['e1', 'e2', `e5.tmp-${alive}`, 'e6.tmp-7-00000000-7'].sort());
  });

  it('of another machine are cleaned when they are old', async () => {
    const path = join(checkpoints, 'e6.tmp-7-00000000-7');
    await mkdir(path);
    expect(await cleanLeftovers(checkpoints)).toEqual([]);
    await nodeFs.utimes(path, new Date(0), new Date(0));
    expect(await cleanLeftovers(checkpoints)).toEqual(['e6.tmp-7-00000000-7']);
  });

  it('may stay in a folder that can only be read', async () => {
    await writeCheckpoint(join(checkpoints, 'e1'), contentOf(1));
    await mkdir(join(checkpoints, `e3.tmp-${await deadOwner()}`));
    expect((await findLatestCheckpoint(run, { fs: failing('rm', 'EROFS') }))?.manifest).toEqual({ n: 1 });
  });
});

describe('a writer that is killed', () => {
  const script = fileURLToPath(new URL('./checkpoint-writer.ts', import.meta.url));
  const start = (names: number) => {
    const child = fork(script, [run, String(names)], { execArgv: ['--import', 'tsx'] });
    let saved = 0;
    child.on('message', (n) => {
      saved = Number(n);
    });
    return { child, saved: () => saved, ended: new Promise((done) => child.once('exit', done)) };
  };

  it('50 times at random moments: the latest is always good and complete, nothing grows', {
    timeout: 180_000,
  }, async () => {
    let before = 0;
    let kills = 0;
    for (; kills < 50; kills++) {
      // One name: each save replaces the only checkpoint. Three: new ones and old ones change places.
      const { child, saved, ended } = start(kills % 2 === 0 ? 1 : 3);
      child.send('go');
      const first = before;
      while (saved() === 0 && child.exitCode === null) await sleep(5);
      await sleep(Math.random() * 40);
      const acknowledged = saved();
      child.kill('SIGKILL');
      await ended;
      const latest = await findLatestCheckpoint(run, { warn: (_, message) => expect.fail(message) });
      const n = Number(latest?.manifest['n']);
      expect(n).toBeGreaterThanOrEqual(acknowledged);
      expect(acknowledged).toBeGreaterThan(first);
      expect(latest?.tensors).toEqual(contentOf(n).tensors);
      expect(latest?.texts).toEqual(contentOf(n).texts);
      const entries = await readdir(checkpoints);
      expect(entries.filter((name) => !/^e\d$/.test(name))).toEqual([]);
      expect(entries.length).toBeLessThanOrEqual(3);
      before = n;
    }
    expect(kills).toBe(50);
  });

  it('can be read while it replaces its only checkpoint', async () => {
    const { child, saved, ended } = start(1);
    child.send('go');
    while (saved() === 0) await sleep(5);
    for (let i = 0; i < 60; i++) {
      const least = saved();
      const latest = await findLatestCheckpoint(run, { warn: (_, message) => expect.fail(message) });
      expect(Number(latest?.manifest['n'])).toBeGreaterThanOrEqual(least);
    }
    child.kill('SIGKILL');
    await ended;
    await expect(readCheckpointSummary((await findLatestCheckpoint(run))!.folder)).resolves.toBeDefined();
  });
});
