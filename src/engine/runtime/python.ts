import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { RuntimeContext } from './context.ts';
import { runCommand } from './run-command.ts';

/** A TensorFlow that a Python has. */
export interface PythonTensorflow {
  readonly python: string;
  /** The package's folder, which holds the libraries. */
  readonly folder: string;
  readonly version: string;
  /** Name of the distribution, such as `tensorflow-cpu`. */
  readonly distribution: string;
}

// The working folder is taken off the path: a folder `tensorflow` that happens to lie there is not the package.
const FIND_TENSORFLOW = `
import sys
sys.path.pop(0)
import importlib.metadata as metadata, importlib.util as util, json
spec = util.find_spec("tensorflow")
found = None
if spec is not None and spec.submodule_search_locations:
    for name in ("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tensorflow-cpu-aws"):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        found = dict(folder=list(spec.submodule_search_locations)[0], version=version, distribution=name)
        break
print("found:" + json.dumps(found))
`;

/** Pythons to ask, the active environment's first. */
export function pythons(env: RuntimeContext['env']): string[] {
  const active = [env['VIRTUAL_ENV'], env['CONDA_PREFIX']]
    .filter((folder) => folder !== undefined && folder !== '')
    .map((folder) => join(folder!, 'bin', 'python'))
    .filter((path) => existsSync(path));
  return [...active, 'python3', 'python'];
}

/** TensorFlows of the Pythons in reach, found without importing them; each folder once. */
export async function findPythonTensorflows(env: RuntimeContext['env']): Promise<PythonTensorflow[]> {
  const found = new Map<string, PythonTensorflow>();
  for (const python of pythons(env)) {
    const { ok, stdout } = await runCommand(python, ['-c', FIND_TENSORFLOW], { env: { ...env }, seconds: 30 });
    const line = ok ? /^found:(\{.*\})$/m.exec(stdout)?.[1] : undefined;
    if (line === undefined) continue;
    const { folder, version, distribution } = JSON.parse(line) as Omit<PythonTensorflow, 'python'>;
    if (!found.has(folder)) found.set(folder, { python, folder, version, distribution });
  }
  return [...found.values()];
}

// Debian and others leave pip out of Python but keep it as a wheel for new environments; it can answer from there.
const PIP_DEFAULT_INDEX = `
import glob, os, sys
sys.path.pop(0)
try:
    import pip
except ImportError:
    import ensurepip
    wheels = glob.glob(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled", "pip-*.whl"))
    sys.path[:0] = wheels + glob.glob("/usr/share/python-wheels/pip-*.whl")
from pip._internal.models.index import PyPI
print("index:" + PyPI.simple_url)
`;

/** The package index that pip is set to or has built in; undefined where no pip is in reach. */
export async function pipIndexUrl(env: RuntimeContext['env']): Promise<string | undefined> {
  for (const python of pythons(env)) {
    const set = await runCommand(python, ['-m', 'pip', 'config', 'get', 'global.index-url'], { env: { ...env } });
    const url = set.ok ? set.stdout.trim() : '';
    if (/^https?:\/\//.test(url)) return url;
    const own = await runCommand(python, ['-c', PIP_DEFAULT_INDEX], { env: { ...env } });
    const match = own.ok ? /^index:(https?:\/\/\S+)$/m.exec(own.stdout)?.[1] : undefined;
    if (match !== undefined) return match;
  }
  return undefined;
}
