import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test } from 'vitest';
import { findRuntime, loadLibrary } from '../../../src/engine/runtime/index.ts';
import { libraryNames, platformOf } from '../../../src/engine/runtime/platform.ts';

let folder = '';

beforeAll(async () => {
  const { found } = await findRuntime();
  // `npm test` installs the libraries before it runs this.
  expect(found, 'TensorFlow must be installed: run `npm test`').toBeDefined();
  folder = found!.folder;
});

function runBeside(
  what: string,
  env: NodeJS.ProcessEnv = {},
): Promise<{ code: number | string | null; stdout: string; stderr: string }> {
  const script = fileURLToPath(new URL('beside.ts', import.meta.url));
  const { TF_CPP_MIN_LOG_LEVEL: _level, TF_ENABLE_ONEDNN_OPTS: _oneDnn, ...clean } = process.env;
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['--import', 'tsx', script, folder, what],
      { env: { ...clean, ...env } },
      (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : (error.code ?? error.signal ?? null), stdout, stderr }),
    );
  });
}

test('a process that only loaded the library ends with code 0 and writes nothing of its own', async () => {
  expect(await runBeside('only-load')).toEqual({
    code: 0,
    stdout: expect.stringMatching(/^ok 2\.21\.\d+ true\n$/),
    stderr: '',
  });
});

test('TLS, zlib, subtle crypto, dns and worker threads work in a process that has it', async () => {
  expect(await runBeside('all')).toEqual({ code: 0, stdout: expect.stringMatching(/^ok 2\.21/), stderr: '' });
});

test('a worker thread can load it, alone or beside the main thread', async () => {
  expect(await runBeside('only-worker')).toEqual({
    code: 0,
    stdout: expect.stringMatching(/^ok 2\.21\.\d+\n$/),
    stderr: '',
  });
});

test("the user's own choice of oneDNN and log level is kept", async () => {
  const { code, stdout } = await runBeside('only-load', { TF_ENABLE_ONEDNN_OPTS: '0' });
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/ false\n$/) });
  const loud = await runBeside('only-load', { TF_CPP_MIN_LOG_LEVEL: '0' });
  expect(loud.stderr).toContain('oneDNN');
});

test('a missing C function is named', () => {
  const { requireSymbols } = loadLibrary(folder, ['TF_NewStatus']);
  requireSymbols(['TFE_Execute']);
  expect(() => requireSymbols(['TF_NewStatus', 'TF_DoesNotExist', 'TFE_NorThis'])).toThrowError(
    expect.objectContaining({
      code: 'RUNTIME_SYMBOL_MISSING',
      message: expect.stringMatching(/: TF_DoesNotExist, TFE_NorThis$/),
    }),
  );
});

test('absent and damaged libraries are told apart', () => {
  const place = mkdtempSync(join(tmpdir(), 'alambic-load-'));
  try {
    expect(() => loadLibrary(place)).toThrowError(expect.objectContaining({ code: 'RUNTIME_NOT_FOUND' }));
    const { framework, cc } = libraryNames(platformOf());
    writeFileSync(join(place, framework), 'no library');
    writeFileSync(join(place, cc), 'no library');
    expect(() => loadLibrary(place)).toThrowError(
      expect.objectContaining({
        code: 'RUNTIME_LOAD',
        at: join(place, framework),
        hint: expect.stringContaining('runtime remove'),
      }),
    );
  } finally {
    rmSync(place, { recursive: true });
  }
});
