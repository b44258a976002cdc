import { existsSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { AlambicError } from '../../errors.ts';
import { type RuntimeContext, runtimeContext, runtimeFolder } from './context.ts';
import { hasNvidiaDevice } from './driver.ts';
import { refusalOf } from './library-files.ts';
import { type Bundle, isFittingVersion, type RuntimeKind, TENSORFLOW_SERIES } from './manifest.ts';
import { type PlatformName, platformOf } from './platform.ts';
import { findPythonTensorflows } from './python.ts';

/** Where a runtime comes from: ALAMBIC_TENSORFLOW_DIR, our cache, or a Python's TensorFlow. */
export type RuntimeOrigin = 'environment' | 'cache' | 'python';

/** A usable pair of libraries. */
export interface RuntimeLocation {
  /** Holds libtensorflow_framework and libtensorflow_cc. */
  readonly folder: string;
  readonly origin: RuntimeOrigin;
  readonly platform: PlatformName;
  /** With CUDA or not; `cpu` where it cannot be told. */
  readonly kind: RuntimeKind;
  /** TensorFlow's version; undefined for a folder that only the library itself could tell it of. */
  readonly version: string | undefined;
}

/** A place that was looked at and why it does not serve. */
export interface Refusal {
  readonly place: string;
  readonly reason: string;
}

/** What a search brought. */
export interface Search {
  readonly found: RuntimeLocation | undefined;
  readonly refused: readonly Refusal[];
}

export interface FindOptions {
  /** Only a runtime with CUDA will do. @default false */
  readonly gpu?: boolean;
  readonly context?: Partial<RuntimeContext>;
}

/** What an installed runtime says of itself: `runtime.json` in its folder. */
export interface RuntimeRecord {
  readonly version: string;
  readonly kind: RuntimeKind;
  readonly platform: PlatformName;
  /** Sizes in bytes of all files by path; a runtime that lacks one of them is not used. */
  readonly files: Readonly<Record<string, number>>;
  /** The wheels that it was unpacked from: name and sha256. */
  readonly wheels: readonly { readonly file: string; readonly sha256: string }[];
}

/**
 * Looks for TensorFlow's libraries: ALAMBIC_TENSORFLOW_DIR, the cache, then a Python's TensorFlow of the right version.
 *
 * @throws AlambicError RUNTIME_PLATFORM; RUNTIME_NOT_FOUND where ALAMBIC_TENSORFLOW_DIR is set to a folder that does not serve.
 * @example
 * const { found, refused } = await findRuntime();
 */
export async function findRuntime(options: FindOptions = {}): Promise<Search> {
  const context = runtimeContext(options.context);
  const platform = platformOf(context.machine);
  const gpu = options.gpu ?? false;
  const named = context.env['ALAMBIC_TENSORFLOW_DIR'];
  if (named) return { found: locateNamed(named, platform, context), refused: [] };
  const refused: Refusal[] = [];
  const found = findInCache(platform, gpu, context, refused) ?? (await findInPython(platform, gpu, context, refused));
  return { found, refused };
}

/** The folder that the user named: a wrong one is an error, since something else must not be used in its place. */
function locateNamed(named: string, platform: PlatformName, context: RuntimeContext): RuntimeLocation {
  const base = resolve(named);
  const folders = [base, join(base, 'tensorflow'), join(base, 'lib')];
  for (const folder of folders) {
    if (refusalOf(folder, platform, context.leastBytes) === undefined) {
      return { folder, origin: 'environment', platform, kind: kindOf(folder), version: undefined };
    }
  }
  throw new AlambicError(
    'RUNTIME_NOT_FOUND',
    `ALAMBIC_TENSORFLOW_DIR: ${refusalOf(base, platform, context.leastBytes)}`,
    {
      hint: "Set it to a folder that holds TensorFlow's libraries (a Python's `site-packages/tensorflow`, say), or unset it to have them found or installed.",
    },
  );
}

/** Folder of an installed runtime. */
export function installedFolder(
  bundle: Pick<Bundle, 'version' | 'kind' | 'platform'>,
  context: RuntimeContext,
): string {
  return join(runtimeFolder(context), `tensorflow-${bundle.version}-${bundle.kind}-${bundle.platform}`);
}

/** A runtime in the cache: with CUDA before without where the machine has an NVIDIA driver, the other way round elsewhere. */
export function findInCache(
  platform: PlatformName,
  gpu: boolean,
  context: RuntimeContext,
  refused: Refusal[] = [],
): RuntimeLocation | undefined {
  const both: RuntimeKind[] = hasNvidiaDevice() ? ['gpu', 'cpu'] : ['cpu', 'gpu'];
  const kinds = (gpu ? (['gpu'] as const) : both).filter((kind) => kind === 'cpu' || platform === 'linux-x86_64');
  for (const kind of kinds) {
    const { version } = context.bundle(platform, kind);
    const place = installedFolder({ version, kind, platform }, context);
    if (!existsSync(place)) continue;
    const folder = join(place, 'tensorflow');
    const reason = incompleteness(place) ?? refusalOf(folder, platform, context.leastBytes);
    if (reason === undefined) return { folder, origin: 'cache', platform, kind, version };
    refused.push({ place, reason });
  }
  return undefined;
}

/** Reads `runtime.json` of an installed runtime. */
export function readRecord(place: string): RuntimeRecord | undefined {
  try {
    return JSON.parse(readFileSync(join(place, 'runtime.json'), 'utf8')) as RuntimeRecord;
  } catch {
    // Absent or damaged: either way there is nothing that says what should be here.
    return undefined;
  }
}

function incompleteness(place: string): string | undefined {
  const record = readRecord(place);
  if (record === undefined) return 'runtime.json is missing or damaged';
  for (const [name, bytes] of Object.entries(record.files)) {
    const size = statSync(join(place, name), { throwIfNoEntry: false })?.size;
    if (size !== bytes) return `${name} has ${size ?? 'no'} bytes instead of ${bytes}`;
  }
  return undefined;
}

async function findInPython(
  platform: PlatformName,
  gpu: boolean,
  context: RuntimeContext,
  refused: Refusal[],
): Promise<RuntimeLocation | undefined> {
  for (const { python, folder, version } of await findPythonTensorflows(context.env)) {
    const place = `TensorFlow ${version} of ${python}`;
    const kind = kindOf(folder);
    const reason = !isFittingVersion(version)
      ? `alambic needs ${TENSORFLOW_SERIES}`
      : gpu && kind === 'cpu'
        ? "it is without CUDA's libraries"
        : refusalOf(folder, platform, context.leastBytes);
    if (reason === undefined) return { folder, origin: 'python', platform, kind, version };
    refused.push({ place, reason });
  }
  return undefined;
}

/** The framework library with CUDA has 163 MB, without 65 MB. */
const LEAST_GPU_BYTES = 120_000_000;

/** Whether libraries are CUDA's build and have CUDA beside them, as pip puts it. PyTorch may have brought that for itself. */
function kindOf(folder: string): RuntimeKind {
  const size = statSync(join(folder, 'libtensorflow_framework.so.2'), { throwIfNoEntry: false })?.size ?? 0;
  return size >= LEAST_GPU_BYTES && existsSync(join(folder, '..', 'nvidia', 'cudnn', 'lib')) ? 'gpu' : 'cpu';
}
