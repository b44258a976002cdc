import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findRuntime } from '../../src/engine/runtime/index.ts';

const ALAMBIC = fileURLToPath(new URL('../../bin/alambic.mjs', import.meta.url));
let cache = '';

beforeAll(() => {
  cache = mkdtempSync(join(tmpdir(), 'alambic-runtime-'));
});
afterAll(() => rmSync(cache, { recursive: true }));

/** Calls `alambic runtime …` in an environment that knows nothing but a cache. */
function runtime(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<{ code: unknown; stdout: string; stderr: string }> {
  const own = { PATH: '/nowhere', HOME: cache, ALAMBIC_CACHE_DIR: cache, ...env };
  return new Promise((resolve) => {
    execFile(process.execPath, [ALAMBIC, 'runtime', ...args], { env: own }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : error.code, stdout, stderr }),
    );
  });
}

test('info says that there is none and how to get it', async () => {
  expect(await runtime(['info'])).toEqual({
    code: 0,
    stdout: `libraries: none; \`alambic runtime install\` brings TensorFlow 2.21.0\ncache:     ${cache}/runtime\n`,
    stderr: '',
  });
});

test('install without a network or an index is an error with its code and a way out', async () => {
  const offline = await runtime(['install', '--offline', '--json']);
  expect(offline.code).toBe(1);
  expect(offline.stdout).toContain('RUNTIME_OFFLINE');
  const none = await runtime(['install']);
  expect(none.code).toBe(1);
  expect(none.stderr).toContain('RUNTIME_NO_INDEX');
  expect(none.stderr).toContain('ALAMBIC_TENSORFLOW_DIR');
});

test('info on a usable library loads it and names its devices', async () => {
  const { found } = await findRuntime();
  const { stdout, code } = await runtime(['info', '--json'], { ALAMBIC_TENSORFLOW_DIR: found!.folder });
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    folder: found!.folder,
    origin: 'environment',
    version: expect.stringMatching(/^2\.21\./),
    oneDnn: true,
    devices: expect.arrayContaining([expect.stringContaining('CPU:0')]),
  });
  const present = await runtime(['install'], { ALAMBIC_TENSORFLOW_DIR: found!.folder });
  expect(present).toMatchObject({ code: 0, stdout: expect.stringContaining(`is there already: ${found!.folder}`) });
});

test('remove says what it took away', async () => {
  expect((await runtime(['remove'])).stdout).toBe('nothing is installed in the cache\n');
  const installed = join(cache, 'runtime', 'tensorflow-2.20.0-cpu-linux-x86_64');
  mkdirSync(installed, { recursive: true });
  writeFileSync(join(installed, 'library'), Buffer.alloc(2_500_000));
  expect((await runtime(['remove'])).stdout).toBe(`removed ${installed}\n2.5 MB are free again\n`);
});
