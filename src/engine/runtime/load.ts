import { existsSync } from 'node:fs';
import { join } from 'node:path';
import koffi, { type LibraryHandle } from 'koffi';
import { AlambicError } from '../../errors.ts';
import { hasNvidiaDevice } from './driver.ts';
import { isFittingVersion, TENSORFLOW_SERIES } from './manifest.ts';
import { libraryNames, platformOf } from './platform.ts';
import { type FileDescriptors, withoutStartLines } from './start-lines.ts';

/** TensorFlow's library, open in this process. */
export interface LoadedLibrary {
  /** libtensorflow_cc; its prototypes belong to `src/engine/tensorflow/`. */
  readonly library: LibraryHandle;
  /** What TF_Version says, such as `2.21.0`. */
  readonly version: string;
  /** Whether oneDNN's kernels are asked for (`TF_ENABLE_ONEDNN_OPTS`). */
  readonly oneDnn: boolean;
  /** Checks that the library has these C functions; throws RUNTIME_SYMBOL_MISSING with the names that it lacks. */
  requireSymbols(names: readonly string[]): void;
}

/** The functions of the C library that loading needs. */
interface Linker extends FileDescriptors {
  open(path: string): unknown;
  find(handle: unknown, symbol: string): boolean;
  setEnvironment(name: string, value: string): void;
}

const RTLD_NOW = 0x2;
/** Never unloaded: koffi closes its libraries at exit, and TensorFlow's own threads would then crash the process. */
const RTLD_NODELETE = process.platform === 'darwin' ? 0x80 : 0x1000;

let bound: Linker | undefined;

function openLinker(): Linker {
  bound ??= bindLinker();
  return bound;
}

function bindLinker(): Linker {
  // In glibc before 2.34, dlopen lives in libdl; libdl gives access to libc's functions too, since it needs libc.
  const name = process.platform === 'darwin' ? '/usr/lib/libSystem.B.dylib' : 'libdl.so.2';
  const c = koffi.load(name);
  const dlopen = c.func('void *dlopen(const char *path, int flags)');
  const dlsym = c.func('void *dlsym(void *handle, const char *symbol)');
  const dlerror = c.func('const char *dlerror()');
  const dup = c.func('int dup(int descriptor)');
  const dup2 = c.func('int dup2(int descriptor, int target)');
  const close = c.func('int close(int descriptor)');
  const setenv = c.func('int setenv(const char *name, const char *value, int overwrite)');
  return {
    open(path) {
      const handle: unknown = dlopen(path, RTLD_NOW | RTLD_NODELETE);
      if (handle === null) throw loadFailure(path, String(dlerror()));
      return handle;
    },
    find: (handle, symbol) => dlsym(handle, symbol) !== null,
    duplicate: (descriptor) => Number(dup(descriptor)),
    duplicateTo: (descriptor, target) => Number(dup2(descriptor, target)),
    closeDuplicate: (descriptor) => {
      close(descriptor);
    },
    setEnvironment(variable, value) {
      process.env[variable] = value;
      // In a worker thread process.env is a copy, which the library does not see.
      setenv(variable, value, 1);
    },
  };
}

/**
 * Loads TensorFlow's libraries from a folder into this process, for good; a second call for the same folder is cheap.
 *
 * Sets TF_ENABLE_ONEDNN_OPTS=1 (oneDNN's kernels: half the time of a step) and TF_CPP_MIN_LOG_LEVEL=2 (errors only) unless
 * the environment already has them.
 *
 * @param folder holds libtensorflow_framework and libtensorflow_cc
 * @param symbols C functions that the caller needs
 * @throws AlambicError RUNTIME_NOT_FOUND, RUNTIME_PLATFORM, RUNTIME_LOAD, RUNTIME_SYMBOL_MISSING, RUNTIME_VERSION.
 * @example
 * const { library } = loadLibrary(folder, ['TF_NewStatus']);
 * const version = library.func('const char *TF_Version()')();
 */
export function loadLibrary(folder: string, symbols: readonly string[] = []): LoadedLibrary {
  const names = libraryNames(platformOf());
  const framework = join(folder, names.framework);
  const cc = join(folder, names.cc);
  for (const path of [framework, cc]) {
    if (existsSync(path)) continue;
    throw new AlambicError('RUNTIME_NOT_FOUND', `expected ${path}, which is not there`, {
      hint: '`alambic runtime install` brings the libraries; or point ALAMBIC_TENSORFLOW_DIR to a folder that has them.',
    });
  }
  const linker = openLinker();
  const { open, find, setEnvironment } = linker;
  setEnvironment('TF_ENABLE_ONEDNN_OPTS', process.env['TF_ENABLE_ONEDNN_OPTS'] ?? '1');
  setEnvironment('TF_CPP_MIN_LOG_LEVEL', process.env['TF_CPP_MIN_LOG_LEVEL'] ?? '2');
  preloadSolver(folder, open);
  const level = Number(process.env['TF_CPP_MIN_LOG_LEVEL']);
  if (level >= 1) withoutStartLines(linker, () => open(framework));
  else open(framework);
  setLogLevel(framework, linker, level);
  const handle = open(cc);
  const requireSymbols = (wanted: readonly string[]): void => {
    const missing = wanted.filter((symbol) => !find(handle, symbol));
    if (missing.length === 0) return;
    throw new AlambicError(
      'RUNTIME_SYMBOL_MISSING',
      `expected C functions that the library lacks: ${missing.join(', ')}`,
      {
        hint: `alambic needs TensorFlow ${TENSORFLOW_SERIES}. ${OTHER_LIBRARY}`,
        at: cc,
      },
    );
  };
  requireSymbols(['TF_Version', ...symbols]);
  const library = koffi.load(cc);
  const version = String(library.func('const char *TF_Version()')());
  if (!isFittingVersion(version)) {
    throw new AlambicError('RUNTIME_VERSION', `expected TensorFlow ${TENSORFLOW_SERIES}, the library is ${version}`, {
      hint: OTHER_LIBRARY,
      at: cc,
    });
  }
  return { library, version, oneDnn: process.env['TF_ENABLE_ONEDNN_OPTS'] !== '0', requireSymbols };
}

/** TensorFlow reads TF_CPP_MIN_LOG_LEVEL but its log library does not, so that is told itself; the name holds the release of Abseil. */
const SET_LOG_LEVEL = '_ZN4absl12lts_2025081414SetMinLogLevelENS0_18LogSeverityAtLeastE';

function setLogLevel(framework: string, { open, find }: Linker, level: number): void {
  if (!(level >= 0 && level <= 3) || !find(open(framework), SET_LOG_LEVEL)) return;
  koffi.load(framework).func(SET_LOG_LEVEL, 'void', ['int'])(level);
}

const OTHER_LIBRARY =
  '`alambic runtime install` brings the right one; unset ALAMBIC_TENSORFLOW_DIR if it points to another.';

/**
 * In pip's layout TensorFlow does not find cusolver, whose folder only libtensorflow_cc searches, and then refuses the GPU;
 * a library that is already open is found by its name. Our own layout has a link in a folder that is searched.
 */
function preloadSolver(folder: string, open: Linker['open']): void {
  const nvidia = join(folder, '..', 'nvidia');
  const solver = join(nvidia, 'cusolver', 'lib', 'libcusolver.so.11');
  if (existsSync(solver) && !existsSync(join(nvidia, 'cudnn', 'lib', 'libcusolver.so.11')) && hasNvidiaDevice()) {
    open(solver);
  }
}

/** The linker's own words say what lacks; the usual reasons get their own way out. */
function loadFailure(path: string, reason: string): AlambicError {
  const missing = /(lib[\w+.-]+): cannot open shared object file/.exec(reason)?.[1];
  let hint = 'Install the libraries anew: `alambic runtime remove`, then `alambic runtime install`.';
  if (missing !== undefined) hint = `Install the system package that has ${missing}.`;
  else if (/GLIBC(XX)?_[\d.]+' not found/.test(reason)) hint = "This system's C or C++ library is too old.";
  else if (/failed to map segment|Operation not permitted/.test(reason)) {
    hint = 'The folder may forbid running code (noexec): set ALAMBIC_CACHE_DIR to a folder on another file system.';
  }
  return new AlambicError('RUNTIME_LOAD', `TensorFlow could not be loaded: ${reason}`, { hint, at: path });
}
