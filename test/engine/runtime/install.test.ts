import { type ChildProcess, spawn } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { RuntimeContext } from '../../../src/engine/runtime/context.ts';
import {
  describeRuntime,
  ensureRuntime,
  findRuntime,
  installRuntime,
  type Progress,
  removeRuntime,
} from '../../../src/engine/runtime/index.ts';
import { thisProcess } from '../../../src/process-identity.ts';
import { type IndexServer, type ServerOptions, startIndex } from './index-server.ts';
import { CC, FRAMEWORK, fakeBundle, fakeContext, fakeLibrary, fakeWheel, makeZip } from './wheel.ts';

const bytes = fakeWheel();
const bundle = fakeBundle(bytes);
const wheel = bundle.wheels[0]!;
const file = wheel.files[0]!;

let cache = '';
const servers: IndexServer[] = [];
const children: ChildProcess[] = [];

beforeEach(() => {
  cache = mkdtempSync(join(tmpdir(), 'alambic-install-'));
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  for (const server of servers.splice(0)) await server.close();
  rmSync(cache, { recursive: true });
});

async function serve(options: Partial<ServerOptions> = {}): Promise<IndexServer> {
  const server = await startIndex({ wheel, bytes, ...options });
  servers.push(server);
  return server;
}

const base = () => join(cache, 'runtime');
const place = () => join(base(), 'tensorflow-2.21.0-cpu-linux-x86_64');
const context = (index: string, more: Partial<RuntimeContext> = {}) => ({
  ...fakeContext(cache, index, bundle),
  ...more,
});

/** The runtime is whole, and nothing else is left in the cache. */
function expectInstalled(): void {
  expect(readFileSync(join(place(), 'tensorflow/libtensorflow_framework.so.2')).equals(FRAMEWORK)).toBe(true);
  expect(readFileSync(join(place(), 'tensorflow/libtensorflow_cc.so.2')).equals(CC)).toBe(true);
  expect(readdirSync(join(place(), 'tensorflow')).sort()).toEqual([
    'THIRD_PARTY_NOTICES.txt',
    'libtensorflow_cc.so.2',
    'libtensorflow_framework.so.2',
  ]);
  expect(readdirSync(base())).toEqual(['tensorflow-2.21.0-cpu-linux-x86_64']);
}

/** No runtime, no lock, no half-unpacked folder. */
function expectNothingInstalled(): void {
  const left = existsSync(base()) ? readdirSync(base()) : [];
  expect(left.filter((name) => name !== 'downloads')).toEqual([]);
}

async function startInstaller(
  index: string,
): Promise<{ child: ChildProcess; lines: string[]; end: Promise<number | null> }> {
  const script = fileURLToPath(new URL('installer.ts', import.meta.url));
  const child = spawn(process.execPath, ['--import', 'tsx', script, cache, index], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  const lines: string[] = [];
  child.stdout
    .setEncoding('utf8')
    .on('data', (text: string) => lines.push(...text.split('\n').filter((line) => line !== '')));
  const end = new Promise<number | null>((resolve) => child.once('close', resolve));
  return { child, lines, end };
}

async function until(what: string, condition: () => boolean): Promise<void> {
  const limit = Date.now() + 60_000;
  while (!condition()) {
    if (Date.now() > limit) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test('a fresh installation unpacks the libraries alone, and the next one finds them', async () => {
  const server = await serve();
  const progress: Progress[] = [];
  const said: string[] = [];
  const options = {
    context: context(server.url),
    onProgress: (p: Progress) => progress.push(p),
    say: (line: string) => said.push(line),
  };
  const location = await ensureRuntime(options);
  expect(location).toEqual({
    folder: join(place(), 'tensorflow'),
    origin: 'cache',
    platform: 'linux-x86_64',
    kind: 'cpu',
    version: '2.21.0',
  });
  expectInstalled();
  expect(server.asked).toEqual(['whole']);
  expect(server.pages[0]).toContain('application/vnd.pypi.simple.v1+json');
  expect(progress.at(-1)).toEqual({ file: file.file, received: bytes.length, total: bytes.length });
  expect(said[0]).toMatch(/installing TensorFlow 2\.21\.0 \(CPU\): \d+ kB to download, \d+ kB on disk, in /);
  expect(JSON.parse(readFileSync(join(place(), 'runtime.json'), 'utf8')).wheels).toEqual([
    { file: file.file, sha256: file.sha256 },
  ]);
  expect(statSync(join(place(), 'tensorflow/libtensorflow_cc.so.2')).mode & 0o777).toBe(0o755);
  expect(await ensureRuntime(options)).toEqual(location);
  expect(server.asked).toEqual(['whole']);
  expect(await describeRuntime(options)).toMatchObject({
    origin: 'cache',
    bytes: CC.length + FRAMEWORK.length,
    oneDnn: true,
  });
});

test('a cut connection is gone on from where it broke', async () => {
  const server = await serve({ cuts: [100_000, 50_000] });
  await installRuntime({ context: context(server.url) });
  expectInstalled();
  expect(server.asked[0]).toBe('whole');
  expect(server.asked).toHaveLength(3);
  const starts = server.asked.slice(1).map((range) => Number(/^bytes=(\d+)-$/.exec(range)?.[1]));
  expect(starts[0]).toBeGreaterThan(0);
  expect(starts[0]).toBeLessThanOrEqual(100_000);
  expect(starts[1]).toBeGreaterThan(starts[0]!);
});

test('a server without ranges starts anew', async () => {
  const server = await serve({ cuts: [100_000], ranges: false });
  await installRuntime({ context: context(server.url) });
  expectInstalled();
  expect(server.asked).toEqual(['whole', expect.stringMatching(/^bytes=/)]);
});

test('an overloaded server is asked again, a refusing one is not', async () => {
  const busy = await serve({ statuses: [503, 429] });
  await installRuntime({ context: context(busy.url) });
  expectInstalled();
  await removeRuntime({ context: context(busy.url) });
  const refusing = await serve({ statuses: [404, 404] });
  await expect(installRuntime({ context: context(refusing.url) })).rejects.toMatchObject({
    code: 'RUNTIME_DOWNLOAD',
    message: expect.stringContaining('answered 404'),
  });
  expect(refusing.asked).toEqual(['whole']);
  expectNothingInstalled();
});

test('a connection that breaks each time keeps what came', async () => {
  const server = await serve({ cuts: [40_000, 0, 0, 0, 0, 0, 0] });
  await expect(installRuntime({ context: context(server.url) })).rejects.toMatchObject({
    code: 'RUNTIME_DOWNLOAD',
    hint: expect.stringContaining('goes on from there'),
  });
  expectNothingInstalled();
  expect(statSync(join(base(), 'downloads', `${file.file}.part`)).size).toBeGreaterThan(0);
  await installRuntime({ context: context((await serve()).url) });
  expectInstalled();
});

test('another file of the same length never becomes a runtime', async () => {
  const changed = Buffer.from(bytes);
  changed[1000]! ^= 1;
  const server = await serve({ bytes: changed });
  await expect(installRuntime({ context: context(server.url) })).rejects.toMatchObject({
    code: 'RUNTIME_BAD_HASH',
    message: expect.stringContaining(file.sha256),
  });
  expectNothingInstalled();
  expect(existsSync(join(base(), 'downloads'))).toBe(false);
});

test('another length is refused before it is downloaded', async () => {
  const server = await serve({ bytes: bytes.subarray(0, 1000) });
  await expect(installRuntime({ context: context(server.url) })).rejects.toMatchObject({
    code: 'RUNTIME_BAD_HASH',
    message: expect.stringContaining('offers 1000 bytes'),
  });
  expectNothingInstalled();
});

test('a part of another file is thrown away once, then the download is taken', async () => {
  const server = await serve();
  mkdirSync(join(base(), 'downloads'), { recursive: true });
  writeFileSync(join(base(), 'downloads', `${file.file}.part`), Buffer.alloc(5000, 7));
  await installRuntime({ context: context(server.url) });
  expectInstalled();
  expect(server.asked).toEqual(['bytes=5000-', 'whole']);
});

test('a full disk is told before anything is fetched', async () => {
  const server = await serve();
  await expect(installRuntime({ context: context(server.url, { freeBytes: async () => 1e6 }) })).rejects.toMatchObject({
    code: 'RUNTIME_NO_SPACE',
    message: expect.stringMatching(/expected 65 MB free for TensorFlow, there are 1\.0 MB/),
  });
  expect(server.asked).toEqual([]);
  expectNothingInstalled();
});

test('offline: by wish, without a network, without an index', async () => {
  const server = await serve();
  const { env } = context(server.url) as RuntimeContext;
  for (const options of [
    { context: context(server.url), offline: true },
    { context: context(server.url, { env: { ...env, ALAMBIC_OFFLINE: '1' } }) },
  ]) {
    await expect(ensureRuntime(options)).rejects.toMatchObject({
      code: 'RUNTIME_OFFLINE',
      hint: expect.stringContaining('PIP_FIND_LINKS'),
    });
  }
  expect(server.pages).toEqual([]);
  const closed = 'http://127.0.0.1:9/simple';
  await expect(ensureRuntime({ context: context(closed) })).rejects.toMatchObject({
    code: 'RUNTIME_OFFLINE',
    message: expect.stringContaining('127.0.0.1:9'),
  });
  const none = context('', { env: { ...env, PIP_INDEX_URL: '' } });
  await expect(ensureRuntime({ context: none })).rejects.toMatchObject({
    code: 'RUNTIME_NO_INDEX',
    hint: expect.stringContaining('PIP_INDEX_URL'),
  });
  expectNothingInstalled();
});

test('a wheel at hand is used without a network, and checked all the same', async () => {
  const folder = join(cache, 'wheels');
  mkdirSync(folder);
  writeFileSync(join(folder, file.file), bytes);
  const { env } = context('') as RuntimeContext;
  const linked = context('', { env: { ...env, PIP_INDEX_URL: '', PIP_FIND_LINKS: `/nowhere ${folder}` } });
  await installRuntime({ context: linked, offline: true });
  expectInstalled();
  await removeRuntime({ context: linked });
  await installRuntime({ context: context(''), offline: true, from: folder });
  await removeRuntime({ context: linked });
  await installRuntime({ context: context(''), offline: true, from: join(folder, file.file) });
  expectInstalled();
  await removeRuntime({ context: linked });
  writeFileSync(join(folder, file.file), Buffer.alloc(bytes.length));
  await expect(installRuntime({ context: linked, offline: true })).rejects.toMatchObject({ code: 'RUNTIME_BAD_HASH' });
  expectNothingInstalled();
});

test('platforms without libraries are told why', async () => {
  const on = (machine: Partial<RuntimeContext['machine']>) =>
    installRuntime({
      context: context('http://127.0.0.1:9', {
        machine: { os: 'linux', cpu: 'x64', glibc: '2.36', avx: true, ...machine },
      }),
    });
  const refused = (hint: RegExp) => ({ code: 'RUNTIME_PLATFORM', hint: expect.stringMatching(hint) });
  await expect(on({ os: 'win32' })).rejects.toMatchObject(refused(/WSL/));
  await expect(on({ os: 'darwin' })).rejects.toMatchObject(refused(/Intel/));
  await expect(on({ glibc: undefined })).rejects.toMatchObject(refused(/Alpine/));
  await expect(on({ glibc: '2.17' })).rejects.toMatchObject(refused(/glibc/));
  await expect(on({ avx: false })).rejects.toMatchObject(refused(/AVX/));
  await expect(on({ cpu: 'ia32' })).rejects.toMatchObject(refused(/no libraries/));
  expectNothingInstalled();
});

test('CUDA is not fetched where no driver could run it', async () => {
  for (const [version, text] of [
    [undefined, 'found none'],
    ['470.82.01', 'found 470.82.01'],
    ['525.60.12', 'found 525.60.12'],
  ] as const) {
    const options = { gpu: true, context: context('http://127.0.0.1:9', { driver: async () => version }) };
    await expect(installRuntime(options)).rejects.toMatchObject({
      code: 'RUNTIME_DRIVER',
      message: expect.stringContaining(text),
    });
  }
  const gpu = {
    ...bundle,
    kind: 'gpu' as const,
    links: [{ path: 'nvidia/cudnn/lib/libcusolver.so.11', target: '../../cusolver/lib/libcusolver.so.11' }],
  };
  const server = await serve();
  const found = await installRuntime({
    gpu: true,
    context: context(server.url, { driver: async () => '550.54.15', bundle: () => gpu }),
  });
  expect(found.kind).toBe('gpu');
  const { lstatSync } = await import('node:fs');
  expect(lstatSync(join(found.folder, '..', 'nvidia/cudnn/lib/libcusolver.so.11')).isSymbolicLink()).toBe(true);
});

test('of two installers one works and the other uses its result', async () => {
  const server = await serve({ stall: 100_000 });
  const first = await startInstaller(server.url);
  await until('the first downloads', () => server.asked.length === 1);
  const second = await startInstaller(server.url);
  await until('the second waits', () => second.lines.some((line) => line.includes('waiting for it')));
  expect(second.lines.join('\n')).toContain(`process ${first.child.pid}`);
  // The stalled connection breaks; the first goes on and ends.
  await servers.splice(0)[0]!.close();
  const again = await startIndexAt(server.url);
  expect(await Promise.all([first.end, second.end])).toEqual([0, 0]);
  expect(first.lines.at(-1)).toBe(`folder ${join(place(), 'tensorflow')}`);
  expect(second.lines.at(-1)).toBe(first.lines.at(-1));
  expect(again.asked).toHaveLength(1);
  expectInstalled();
});

async function startIndexAt(url: string): Promise<IndexServer> {
  const server = await startIndex({ wheel, bytes, port: Number(new URL(url).port) });
  servers.push(server);
  return server;
}

test('what a killed installer left is taken over: its lock, its part, its folder', async () => {
  const stalled = await serve({ stall: 150_000 });
  const { child, end } = await startInstaller(stalled.url);
  const part = join(base(), 'downloads', `${file.file}.part`);
  await until('half has come', () => existsSync(part) && statSync(part).size >= 100_000);
  child.kill('SIGKILL');
  await end;
  expect(existsSync(join(base(), 'install.lock'))).toBe(true);
  expect(readdirSync(base()).some((name) => name.startsWith('.installing-'))).toBe(true);
  expect((await findRuntime({ context: context(stalled.url) })).found).toBeUndefined();
  const server = await serve();
  await installRuntime({ context: context(server.url) });
  expectInstalled();
  expect(server.asked).toEqual([expect.stringMatching(/^bytes=1\d{5}-$/)]);
});

test('a damaged runtime is not used, and replaced', async () => {
  const server = await serve();
  const options = { context: context(server.url) };
  await ensureRuntime(options);
  writeFileSync(join(place(), 'tensorflow/libtensorflow_cc.so.2'), CC.subarray(0, 5000));
  expect(await findRuntime(options)).toEqual({
    found: undefined,
    refused: [
      { place: place(), reason: expect.stringMatching(/libtensorflow_cc\.so\.2 has 5000 bytes instead of 400000/) },
    ],
  });
  await ensureRuntime(options);
  expectInstalled();
});

test('a wheel without the libraries is an error, not a runtime', async () => {
  const empty = makeZip([{ name: 'tensorflow/__init__.py', bytes: Buffer.from('') }]);
  const other = fakeBundle(empty);
  const server = await startIndex({ wheel: other.wheels[0]!, bytes: empty });
  servers.push(server);
  await expect(installRuntime({ context: context(server.url, { bundle: () => other }) })).rejects.toMatchObject({
    code: 'RUNTIME_UNPACK',
  });
  expectNothingInstalled();
});

test('remove takes runtimes and downloads away and leaves everything else', async () => {
  const server = await serve();
  const options = { context: context(server.url) };
  expect(await removeRuntime(options)).toEqual({ folders: [], bytes: 0 });
  await installRuntime(options);
  writeFileSync(join(base(), 'my-notes.txt'), 'mine');
  const { folders, bytes: freed } = await removeRuntime(options);
  expect(folders).toEqual([place()]);
  expect(freed).toBeGreaterThan(CC.length + FRAMEWORK.length);
  expect(readdirSync(base())).toEqual(['my-notes.txt']);
  expect((await findRuntime(options)).found).toBeUndefined();
});

test('ALAMBIC_TENSORFLOW_DIR is used before all else, or refused with the reason', async () => {
  const { env } = context('http://127.0.0.1:9') as RuntimeContext;
  const named = (folder: string) => ({ context: context('', { env: { ...env, ALAMBIC_TENSORFLOW_DIR: folder } }) });
  const site = join(cache, 'site');
  mkdirSync(join(site, 'tensorflow'), { recursive: true });
  const refused = (message: RegExp) => ({ code: 'RUNTIME_NOT_FOUND', message: expect.stringMatching(message) });
  await expect(ensureRuntime(named(site))).rejects.toMatchObject(refused(/libtensorflow_framework\.so\.2 is not in/));
  writeFileSync(join(site, 'tensorflow/libtensorflow_framework.so.2'), FRAMEWORK);
  writeFileSync(join(site, 'tensorflow/libtensorflow_cc.so.2'), CC.subarray(0, 500));
  await expect(ensureRuntime(named(join(site, 'tensorflow')))).rejects.toMatchObject(refused(/500 bytes, too few/));
  writeFileSync(join(site, 'tensorflow/libtensorflow_cc.so.2'), fakeLibrary(5000, 183));
  await expect(ensureRuntime(named(join(site, 'tensorflow')))).rejects.toMatchObject(
    refused(/for linux-aarch64, not for linux-x86_64/),
  );
  writeFileSync(join(site, 'tensorflow/libtensorflow_cc.so.2'), CC);
  for (const folder of [site, join(site, 'tensorflow')]) {
    expect(await ensureRuntime(named(folder))).toMatchObject({
      folder: join(site, 'tensorflow'),
      origin: 'environment',
    });
  }
});

test("a Python's TensorFlow serves if its version fits, and is named with the reason if not", async () => {
  const bin = join(cache, 'venv', 'bin');
  const site = join(cache, 'venv', 'site');
  mkdirSync(bin, { recursive: true });
  mkdirSync(join(site, 'tensorflow'), { recursive: true });
  writeFileSync(join(site, 'tensorflow/libtensorflow_framework.so.2'), FRAMEWORK);
  writeFileSync(join(site, 'tensorflow/libtensorflow_cc.so.2'), CC);
  const answer = (version: string) =>
    writeFileSync(
      join(bin, 'python'),
      `#!/bin/sh\necho 'found:{"folder": "${site}/tensorflow", "version": "${version}", "distribution": "tensorflow"}'\n`,
      { mode: 0o755 },
    );
  const { env } = context('http://127.0.0.1:9') as RuntimeContext;
  const options = { context: context('', { env: { ...env, VIRTUAL_ENV: join(cache, 'venv') } }) };
  answer('2.21.1');
  expect((await findRuntime(options)).found).toEqual({
    folder: join(site, 'tensorflow'),
    origin: 'python',
    platform: 'linux-x86_64',
    kind: 'cpu',
    version: '2.21.1',
  });
  answer('2.20.0');
  expect(await findRuntime(options)).toEqual({
    found: undefined,
    refused: [{ place: `TensorFlow 2.20.0 of ${join(bin, 'python')}`, reason: 'alambic needs 2.21.x' }],
  });
  expect((await findRuntime({ ...options, gpu: true })).found).toBeUndefined();
  await expect(ensureRuntime({ ...options, offline: true })).rejects.toMatchObject({
    code: 'RUNTIME_OFFLINE',
    message: expect.stringContaining('TensorFlow 2.20.0 of'),
  });
});

test('a lock of a process that is gone, or whose number another one has now, is taken over', async () => {
  const server = await serve();
  const gone = spawn(process.execPath, ['-e', '0']);
  const pid = gone.pid!;
  await new Promise((resolve) => gone.once('close', resolve));
  for (const holder of [
    { ...thisProcess(), pid, start: '1', token: 'dead' },
    { ...thisProcess(), start: '1', token: 'reused' },
  ]) {
    mkdirSync(base(), { recursive: true });
    writeFileSync(join(base(), 'install.lock'), JSON.stringify(holder));
    await installRuntime({ context: context(server.url) });
    expectInstalled();
    await removeRuntime({ context: context(server.url) });
  }
});
