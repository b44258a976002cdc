import { spawn } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

let root = '';

/** A program of the fake clone: notes its arguments, writes its text, ends with its code. */
function program(path: string, body: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  const note = `require('node:fs').appendFileSync(${JSON.stringify(join(root, 'log'))}, ${JSON.stringify(path)} + ' ' + process.argv.slice(2).join(' ') + '\\n');`;
  // Extensions decide between the two module systems, and the clone's programs have both.
  const head = path.endsWith('.mjs')
    ? "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);"
    : '';
  writeFileSync(join(root, path), `${head}\n${note}\n${body}\n`);
}

const write = (path: string, value: unknown) => writeFileSync(join(root, path), JSON.stringify(value));
const log = () => (existsSync(join(root, 'log')) ? readFileSync(join(root, 'log'), 'utf8').trim().split('\n') : []);
const LOCK = {
  '': { name: 'clone' },
  'node_modules/vitest': { version: '4.0.0' },
  'node_modules/for-another-system': { version: '1.0.0', optional: true },
};
const CLOSING = `process.stdout.write('\\n3 passed, 0 failed, 1 skipped\\n');`;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'alambic-setup-'));
  mkdirSync(join(root, 'src'));
  copyFileSync(fileURLToPath(new URL('../src/setup.mjs', import.meta.url)), join(root, 'src', 'setup.mjs'));
  program('bin/alambic.mjs', '');
  program('node_modules/typescript/bin/tsc', '');
  program('node_modules/@biomejs/biome/bin/biome', '');
  program('node_modules/vitest/vitest.mjs', CLOSING);
  program('npm-cli.js', '');
  write('package-lock.json', { packages: LOCK });
  write('node_modules/.package-lock.json', { packages: { 'node_modules/vitest': { version: '4.0.0' } } });
});
afterEach(() => rmSync(root, { recursive: true }));

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
  readonly lastLine: string | undefined;
}

function setUp(
  args: readonly string[],
  options: { node?: readonly string[]; onOutput?: (text: string, pid: number) => void } = {},
): Promise<Ended> {
  const child = spawn(process.execPath, [...(options.node ?? []), join(root, 'src/setup.mjs'), ...args], {
    env: { ...process.env, npm_execpath: join(root, 'npm-cli.js'), NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString();
    options.onOutput?.(chunk.toString(), child.pid!);
  });
  child.stderr.on('data', (chunk: Buffer) => {
    err += chunk.toString();
  });
  return new Promise((resolve) =>
    child.once('close', (code) => resolve({ code, out, err, lastLine: out.trimEnd().split('\n').at(-1) })),
  );
}

test('start installs the libraries, then starts with the arguments, and ends with the code of that', async () => {
  program('bin/alambic.mjs', `process.exitCode = process.argv[2] === 'start' ? 75 : 0;`);
  expect((await setUp(['start', '--seed', '7', '--resume'])).code).toBe(75);
  expect(log()).toEqual(['bin/alambic.mjs runtime install', 'bin/alambic.mjs start --seed 7 --resume']);
});

test('a signal reaches what was started, which decides how to end', async () => {
  program(
    'bin/alambic.mjs',
    `if (process.argv[2] === 'start') {
       const timer = setInterval(() => {}, 1000);
       process.once('SIGTERM', () => { process.stdout.write('saved'); process.exitCode = 75; clearInterval(timer); });
       process.stdout.write('ready');
     }`,
  );
  const onOutput = (text: string, pid: number) => {
    if (text.includes('ready')) process.kill(pid, 'SIGTERM');
  };
  expect(await setUp(['start'], { onOutput })).toMatchObject({ code: 75, out: expect.stringMatching(/readysaved$/) });
});

test('what is killed ends with 128 and the signal', async () => {
  program('bin/alambic.mjs', `if (process.argv[2] === 'start') process.kill(process.pid, 'SIGKILL');`);
  expect((await setUp(['start'])).code).toBe(137);
});

test('test runs types, lint and tests in this order and ends with the closing line', async () => {
  expect(await setUp(['test'])).toMatchObject({ code: 0, lastLine: '3 passed, 0 failed, 1 skipped' });
  expect(log()).toEqual([
    'bin/alambic.mjs runtime install',
    `node_modules/typescript/bin/tsc --noEmit -p ${root}`,
    `node_modules/@biomejs/biome/bin/biome check ${root}`,
    'node_modules/vitest/vitest.mjs run',
  ]);
});

test('arguments go to vitest, and the checks are left out', async () => {
  expect((await setUp(['test', 'test/losses', '-t', 'focal'])).code).toBe(0);
  expect(log().slice(1)).toEqual(['node_modules/vitest/vitest.mjs run test/losses -t focal']);
});

test('a failed check is a failure in the closing line, and the tests run all the same', async () => {
  program('node_modules/typescript/bin/tsc', 'process.exitCode = 2;');
  program('node_modules/@biomejs/biome/bin/biome', 'process.exitCode = 1;');
  expect(await setUp(['test'])).toMatchObject({
    code: 2,
    out: expect.stringMatching(/\[setup\] types: FAILED \(exit code 2\) after [\d.]+ s/),
    lastLine: '3 passed, 2 failed, 1 skipped',
  });
});

test('failed tests are counted once, a run that broke off counts as one', async () => {
  program(
    'node_modules/vitest/vitest.mjs',
    `process.stdout.write('2 passed, 5 failed, 0 skipped\\n'); process.exitCode = 1;`,
  );
  expect(await setUp(['test'])).toMatchObject({ code: 1, lastLine: '2 passed, 5 failed, 0 skipped' });
  program('node_modules/vitest/vitest.mjs', `throw new Error('broke off');`);
  expect(await setUp(['test'])).toMatchObject({ code: 1, lastLine: '0 passed, 1 failed, 0 skipped' });
});

test('packages are installed where they are missing, cut off or of another lock file, and only there', async () => {
  const installs = async () => {
    rmSync(join(root, 'log'), { force: true });
    await setUp(['start']);
    return log().includes('npm-cli.js ci --include=dev --no-audit --no-fund');
  };
  expect(await installs()).toBe(false);
  write('node_modules/.package-lock.json', { packages: { 'node_modules/vitest': { version: '3.0.0' } } });
  expect(await installs()).toBe(true);
  write('node_modules/.package-lock.json', { packages: {} });
  expect(await installs()).toBe(true);
  rmSync(join(root, 'node_modules/.package-lock.json'));
  expect(await installs()).toBe(true);
});

test('a failed set-up says what to do, and is a failure of the tests', async () => {
  rmSync(join(root, 'node_modules/.package-lock.json'));
  program('npm-cli.js', 'process.exitCode = 1;');
  expect(await setUp(['test'])).toMatchObject({
    code: 1,
    err: expect.stringMatching(/npm could not install the packages \(exit code 1\)[\s\S]*registry/),
    lastLine: '0 passed, 1 failed, 0 skipped',
  });
  program('npm-cli.js', '');
  program('bin/alambic.mjs', 'process.exitCode = 1;');
  expect(await setUp(['test'])).toMatchObject({
    code: 1,
    err: expect.stringContaining('could not be installed'),
    lastLine: '0 passed, 1 failed, 0 skipped',
  });
});

test('an old Node is told which one is needed before anything is done', async () => {
  const old = `data:text/javascript,Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '18.19.0' } })`;
  expect(await setUp(['start'], { node: ['--import', old] })).toMatchObject({
    code: 1,
    err: expect.stringContaining('needs Node 20 or newer, this is 18.19.0'),
  });
  expect(log()).toEqual([]);
});

test('anything else is a usage error', async () => {
  expect(await setUp(['build'])).toMatchObject({ code: 2, err: expect.stringContaining('start|test') });
});
