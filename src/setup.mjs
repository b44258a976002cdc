/**
 * What `npm start` and `npm test` run: makes a fresh clone ready (packages, TensorFlow's libraries), then starts or tests.
 *
 *   node src/setup.mjs start [arguments of `alambic start`]
 *   node src/setup.mjs test [arguments of vitest; the checks are then left out]
 *
 * Runs before node_modules exists and on Nodes that are too old, so: plain JavaScript, Node's own modules, no recent syntax.
 */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const OLDEST_NODE = 20;

/** A step of the set-up that failed; the message says what to do. */
class SetupError extends Error {}

function say(text) {
  process.stdout.write(`[setup] ${text}\n`);
}

export function checkNode(version) {
  if (Number(version.split('.')[0]) >= OLDEST_NODE) return;
  throw new SetupError(
    `alambic needs Node ${OLDEST_NODE} or newer, this is ${version}.\n` +
      'Install a current Node (nvm: `nvm install --lts`), then run the same command again.',
  );
}

/**
 * Whether the installed packages are those of package-lock.json. npm writes node_modules/.package-lock.json when an installation
 * is complete, so neither a cut-off one nor one of another lock file passes.
 */
export function packagesAreCurrent(root) {
  const hidden = join(root, 'node_modules', '.package-lock.json');
  if (!existsSync(hidden)) return false;
  const installed = readPackages(hidden);
  const wanted = readPackages(join(root, 'package-lock.json'));
  if (installed === undefined || wanted === undefined) return false;
  return Object.keys(wanted).every((path) => {
    if (path === '') return true;
    const entry = wanted[path];
    if (installed[path] === undefined)
      return entry.optional === true || entry.devOptional === true || entry.peer === true;
    return installed[path].version === entry.version && existsSync(join(root, path));
  });
}

function readPackages(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8')).packages;
  } catch (error) {
    say(`${path} cannot be read (${error.message})`);
    return undefined;
  }
}

async function installPackages() {
  if (packagesAreCurrent(ROOT)) {
    say('packages: up to date');
    return;
  }
  say('packages: installing with `npm ci`');
  const { npm_execpath: path } = process.env;
  // The npm that called us, by its own file, else the one on the PATH.
  const own = path !== undefined && /npm-cli\.[cm]?js$/.test(path);
  const command = own ? process.execPath : 'npm';
  const args = [...(own ? [path] : []), 'ci', '--include=dev', '--no-audit', '--no-fund'];
  const { code, error } = await run(command, args, { shell: !own && process.platform === 'win32' });
  if (code === 0) return;
  throw new SetupError(
    `npm could not install the packages (${error === undefined ? `exit code ${code}` : error.message}).\n` +
      'What npm says is above. Usual reasons: no network or a proxy (`npm config set proxy …`), a registry that lacks a package\n' +
      '(`npm config get registry`), no room on the disk, or node_modules belongs to another user. Then run the same command again.',
  );
}

async function installRuntime() {
  say("TensorFlow's libraries:");
  const { code } = await run(process.execPath, [join(ROOT, 'bin', 'alambic.mjs'), 'runtime', 'install']);
  if (code !== 0) throw new SetupError("TensorFlow's libraries could not be installed; what to do is said above.");
}

/** Runs a program until it ends; `onText` gets what it writes to its standard output, which is shown all the same. */
function run(command, args, { shell = false, onText } = {}) {
  return new Promise((resolve) => {
    const env = { ...process.env };
    // Behind a pipe programs would leave colours out.
    if (onText !== undefined && process.stdout.isTTY && env.NO_COLOR === undefined)
      env.FORCE_COLOR = env.FORCE_COLOR || '1';
    const stdout = onText === undefined ? 'inherit' : 'pipe';
    const child = spawn(command, args, { cwd: ROOT, env, shell, stdio: ['inherit', stdout, 'inherit'] });
    const stopForwarding = forwardSignals(child);
    if (onText !== undefined) {
      child.stdout.on('data', (chunk) => {
        process.stdout.write(chunk);
        onText(chunk.toString());
      });
    }
    child.on('error', (error) => {
      stopForwarding();
      resolve({ code: 127, error });
    });
    child.on('close', (code, signal) => {
      stopForwarding();
      resolve({ code: signal === null ? code : 128 + constants.signals[signal], signal });
    });
  });
}

/** Lets a child decide what a signal means. Ctrl-C on a terminal reaches it by itself: twice would mean "stop at once". */
function forwardSignals(child) {
  const listeners = ['SIGINT', 'SIGTERM', 'SIGHUP'].map((signal) => {
    const listener = () => {
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
    };
    process.on(signal, listener);
    return () => process.off(signal, listener);
  });
  return () => {
    for (const stop of listeners) stop();
  };
}

async function start(args) {
  const { code } = await run(process.execPath, [join(ROOT, 'bin', 'alambic.mjs'), 'start', ...args]);
  return code;
}

const bin = (...path) => join(ROOT, 'node_modules', ...path);
const CHECKS = [
  { name: 'types', args: () => [bin('typescript', 'bin', 'tsc'), '--noEmit', '-p', ROOT] },
  { name: 'lint', args: () => [bin('@biomejs', 'biome', 'bin', 'biome'), 'check', ROOT] },
];

/** The last line `N passed, N failed, N skipped` in a text, colours aside. */
export function readCounts(text) {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours are escape sequences.
  const plain = text.replace(/\x1b\[[0-9;]*m/g, '');
  const found = [...plain.matchAll(/^(\d+) passed, (\d+) failed, (\d+) skipped$/gm)].pop();
  if (found === undefined) return undefined;
  return { passed: Number(found[1]), failed: Number(found[2]), skipped: Number(found[3]) };
}

/** Runs the checks, then the tests, and ends with the one closing line, in which a failed check is a failure. */
async function test(args) {
  let worst = 0;
  let failedChecks = 0;
  for (const check of args.length > 0 ? [] : CHECKS) {
    const code = await timed(check.name, () => run(process.execPath, check.args()));
    if (code !== 0) failedChecks += 1;
    worst = Math.max(worst, code);
  }
  let tail = '';
  const onText = (text) => {
    tail = (tail + text).slice(-10_000);
  };
  const code = await timed('tests', () =>
    run(process.execPath, [bin('vitest', 'vitest.mjs'), 'run', ...args], { onText }),
  );
  worst = Math.max(worst, code);
  const counts = readCounts(tail) || { passed: 0, failed: 0, skipped: 0 };
  // A run that broke off has no failed test to show for it, and failed all the same.
  const broken = code !== 0 && counts.failed === 0 ? 1 : 0;
  closingLine({ ...counts, failed: counts.failed + failedChecks + broken });
  return worst;
}

async function timed(name, action) {
  say(`${name}: running`);
  const begin = Date.now();
  const { code } = await action();
  say(
    `${name}: ${code === 0 ? 'passed' : `FAILED (exit code ${code})`} after ${((Date.now() - begin) / 1000).toFixed(1)} s`,
  );
  return code;
}

function closingLine({ passed, failed, skipped }) {
  process.stdout.write(`\n${passed} passed, ${failed} failed, ${skipped} skipped\n`);
}

async function main([action, ...args]) {
  if (action !== 'start' && action !== 'test') {
    process.stderr.write('usage: node src/setup.mjs start|test [arguments]\n');
    return 2;
  }
  try {
    checkNode(process.versions.node);
    say(`Node ${process.versions.node}`);
    await installPackages();
    await installRuntime();
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    process.stderr.write(`\n${error.message}\n`);
    if (action === 'test') closingLine({ passed: 0, failed: 1, skipped: 0 });
    return 1;
  }
  return action === 'start' ? start(args) : test(args);
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  main(process.argv.slice(2)).then(
    (code) => {
      process.exitCode = code;
    },
    (error) => {
      process.stderr.write(`${error.stack}\n`);
      process.exitCode = 1;
    },
  );
}
