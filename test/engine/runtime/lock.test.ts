import { existsSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { withLock } from '../../../src/engine/runtime/lock.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'alambic-lock-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const path = () => join(folder, 'install.lock');
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

test('one holds it at a time, also within a process, and nothing is left', async () => {
  let inside = 0;
  let most = 0;
  const work = () =>
    withLock(folder, async () => {
      most = Math.max(most, ++inside);
      await sleep(20);
      return inside--;
    });
  expect(await Promise.all([work(), work(), work()])).toEqual([1, 1, 1]);
  expect(most).toBe(1);
  expect(readdirSync(folder)).toEqual([]);
});

test('an error frees it', async () => {
  await expect(withLock(folder, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(await withLock(folder, async () => 'free')).toBe('free');
});

test('who waits too long is told whom for', async () => {
  await withLock(folder, async () => {
    const waits: string[] = [];
    await expect(
      withLock(folder, async () => 1, { timeout: 600, onWait: (holder) => waits.push(holder) }),
    ).rejects.toMatchObject({
      code: 'RUNTIME_LOCKED',
      message: expect.stringContaining(`process ${process.pid}`),
    });
    expect(waits).toEqual([`process ${process.pid}`]);
  });
});

test('what was waited for being done ends the wait', async () => {
  await withLock(folder, async () => {
    expect(await withLock(folder, async () => 1, { isDone: () => true })).toBeUndefined();
  });
});

test('a holder on another machine counts as dead when it has been silent for a minute', async () => {
  const holder = { pid: 1, host: `not-${hostname()}`, start: '1', token: 'far' };
  writeFileSync(path(), JSON.stringify(holder));
  await expect(withLock(folder, async () => 1, { timeout: 0 })).rejects.toMatchObject({ code: 'RUNTIME_LOCKED' });
  const old = new Date(Date.now() - 120_000);
  utimesSync(path(), old, old);
  expect(await withLock(folder, async () => 1)).toBe(1);
});

test('a lock that a crash left empty is taken over once it is old', async () => {
  writeFileSync(path(), '');
  await expect(withLock(folder, async () => 1, { timeout: 0 })).rejects.toMatchObject({ code: 'RUNTIME_LOCKED' });
  const old = new Date(Date.now() - 120_000);
  utimesSync(path(), old, old);
  expect(await withLock(folder, async () => 1)).toBe(1);
  expect(existsSync(path())).toBe(false);
});

test('a folder that cannot be made is its own error', async () => {
  writeFileSync(join(folder, 'file'), '');
  await expect(withLock(join(folder, 'file', 'below'), async () => 1)).rejects.toMatchObject({
    code: 'RUNTIME_CACHE',
    hint: expect.stringContaining('ALAMBIC_CACHE_DIR'),
  });
});
