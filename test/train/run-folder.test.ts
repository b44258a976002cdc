import { execFile } from 'node:child_process';
import nodeFs, { mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { thisProcess } from '../../src/process-identity.ts';
import type { FileSystem } from '../../src/train/file-errors.ts';
import { openRunFolder } from '../../src/train/run-folder.ts';
import { acquireRunLock } from '../../src/train/run-lock.ts';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'alambic-run-'));
});
afterEach(() => rm(root, { recursive: true }));

const now = () => new Date('2026-12-01T01:58:44.123Z');
const options = { recipe: 'digits/kd.yaml', resolvedRecipe: 'seed: 1\n', now };
const open = (more: Partial<Parameters<typeof openRunFolder>[0]> = {}) => openRunFolder({ root, ...options, ...more });

describe('run folder', () => {
  it('is made under the recipe name and the time, with the resolved recipe', async () => {
    const run = await open();
    expect(run.folder).toBe(join(root, 'digits-kd-20261201-015844'));
    expect(run).toMatchObject({ resumed: false, recipeChanged: false });
    expect((await readdir(run.folder)).sort()).toEqual(['checkpoints', 'recipe.yaml', 'run.json', 'run.lock']);
    expect(await readFile(run.recipe, 'utf8')).toBe('seed: 1\n');
    await run.close();
    expect(await readdir(run.folder)).not.toContain('run.lock');
  });

  it('gets a number where two begin in the same second', async () => {
    const runs = await Promise.all([open(), open(), open()]);
    expect(runs.map(({ folder }) => folder.slice(root.length + 1)).sort()).toEqual([
      'digits-kd-20261201-015844',
      'digits-kd-20261201-015844-2',
      'digits-kd-20261201-015844-3',
    ]);
    await Promise.all(runs.map((run) => run.close()));
  });

  it('keeps odd recipe names inside one path component', async () => {
    for (const recipe of ['../../etc/x', '...', '/', 'größe 3.yml', 'C:\\a']) {
      const run = await open({ recipe });
      expect(run.folder.slice(root.length + 1)).toMatch(/^[\p{L}\p{N}][\p{L}\p{N}._-]*-20261201-015844(-\d)?$/u);
      await run.close();
    }
  });

  it('goes on only when told to, and only with the same recipe', async () => {
    const folder = join(root, 'mine');
    await (await open({ folder })).close();
    await expect(open({ folder })).rejects.toMatchObject({ code: 'RUN_FOLDER_HOLDS_RUN', at: folder });
    for (const resume of [true, false])
      await expect(open({ folder, resume, recipe: 'other' })).rejects.toMatchObject({
        code: 'RUN_FOLDER_OTHER_RECIPE',
        message: 'the folder holds a run of "digits/kd.yaml", this one is "other"',
      });
    const again = await open({ folder, resume: true });
    expect(again).toMatchObject({ resumed: true, recipeChanged: false });
    await again.close();
  });

  it('keeps the old recipe beside a changed one', async () => {
    const folder = join(root, 'mine');
    await (await open({ folder })).close();
    const again = await open({ folder, resume: true, resolvedRecipe: 'seed: 2\n' });
    expect(again.recipeChanged).toBe(true);
    expect(await readFile(again.recipe, 'utf8')).toBe('seed: 2\n');
    expect(await readFile(join(folder, 'recipe.until-20261201-015844.yaml'), 'utf8')).toBe('seed: 1\n');
    await again.close();
  });

  it('refuses a folder with other files, a file, and a resume of nothing', async () => {
    await writeFile(join(root, 'thesis.tex'), '');
    await expect(open({ folder: root })).rejects.toMatchObject({ code: 'RUN_FOLDER_NOT_EMPTY' });
    for (const folder of [join(root, 'thesis.tex'), join(root, 'thesis.tex', 'run')])
      await expect(open({ folder })).rejects.toMatchObject({ code: 'RUN_FOLDER_IS_FILE' });
    await expect(open({ folder: join(root, 'none'), resume: true })).rejects.toMatchObject({
      code: 'RUN_FOLDER_MISSING',
    });
    await mkdir(join(root, 'empty'));
    await (await open({ folder: join(root, 'empty') })).close();
  });

  it.each([
    ['EACCES', 'RUN_FOLDER_READ_ONLY'],
    ['EROFS', 'RUN_FOLDER_READ_ONLY'],
    ['ENOSPC', 'CHECKPOINT_NO_SPACE'],
  ])('%s is %s', async (code, expected) => {
    for (const call of ['mkdir', 'writeFile'] as const) {
      const fs: FileSystem = new Proxy(nodeFs, {
        get: (target, name: keyof typeof nodeFs) =>
          name === call ? () => Promise.reject(Object.assign(new Error(code), { code })) : target[name],
      });
      await expect(open({ fs })).rejects.toMatchObject({ code: expected, hint: expect.any(String) });
    }
  });
});

describe('run lock', () => {
  const path = () => join(root, 'run.lock');

  it('lets one process in, and says who it is', async () => {
    const folder = join(root, 'mine');
    const run = await open({ folder });
    await expect(open({ folder, resume: true })).rejects.toMatchObject({
      code: 'RUN_LOCKED',
      message: expect.stringContaining(`process ${process.pid} (since `),
      hint: expect.stringContaining('folder of its own'),
    });
    await run.close();
    await (await open({ folder, resume: true })).close();
  });

  it('is taken over from a dead process, and from a reused pid', async () => {
    const child = execFile(process.execPath, ['-e', '']);
    await new Promise((done) => child.once('exit', done));
    for (const dead of [{ pid: child.pid }, ...(process.platform === 'linux' ? [{ start: '1' }] : [])]) {
      await writeFile(path(), JSON.stringify({ ...thisProcess(), ...dead, id: 'x', since: 'then' }));
      const lock = await acquireRunLock(path());
      expect(lock.takenOver).toBe(true);
      await lock.release();
      expect(await readdir(root)).toEqual([]);
    }
  });

  it('of another machine counts as dead when it was not touched for five minutes', async () => {
    await writeFile(path(), JSON.stringify({ pid: 1, host: '00000000', start: '1', id: 'x', since: 'then' }));
    await expect(acquireRunLock(path())).rejects.toMatchObject({ code: 'RUN_LOCKED' });
    const old = new Date(Date.now() - 301_000);
    await utimes(path(), old, old);
    await (await acquireRunLock(path())).release();
  });

  it('that was cut off by a crash is taken over after a while', async () => {
    await writeFile(path(), '{"pid":');
    await expect(acquireRunLock(path())).rejects.toMatchObject({ code: 'RUN_LOCKED' });
    const old = new Date(Date.now() - 11_000);
    await utimes(path(), old, old);
    await (await acquireRunLock(path())).release();
  });

  it('goes to exactly one of many who find a dead one', async () => {
    for (let round = 0; round < 20; round++) {
      await writeFile(
        path(),
        JSON.stringify({ ...thisProcess(), start: '1', id: 'x', since: 'then', host: '00000000' }),
      );
      await utimes(path(), new Date(0), new Date(0));
      const results = await Promise.allSettled(Array.from({ length: 8 }, () => acquireRunLock(path())));
      const held = results.filter((result) => result.status === 'fulfilled');
      expect(held).toHaveLength(1);
      await held[0]!.value.release();
      for (const result of results)
        if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'RUN_LOCKED' });
      expect(await readdir(root)).toEqual([]);
    }
  });

  it('is not released by one that lost it', async () => {
    const lock = await acquireRunLock(path());
    await writeFile(path(), JSON.stringify({ ...thisProcess(), id: 'other', since: 'now' }));
    await lock.release();
    expect(await readdir(root)).toEqual(['run.lock']);
  });
});
