import { AlambicError } from '../../errors.ts';
import { isOn, runtimeContext, runtimeFolder } from './context.ts';
import { findRuntime, type Refusal, type RuntimeLocation, type RuntimeOrigin } from './find.ts';
import { type InstallOptions, installRuntime } from './install.ts';
import { librariesBytes } from './library-files.ts';
import { type RuntimeKind, TENSORFLOW_VERSION } from './manifest.ts';

export { runtimeFolder } from './context.ts';
export type { Progress } from './download.ts';
export { findRuntime, type Refusal, type RuntimeLocation, type RuntimeOrigin, type Search } from './find.ts';
export { type InstallOptions, installRuntime, type Removal, removeRuntime } from './install.ts';
export { type LoadedLibrary, loadLibrary } from './load.ts';
export { type RuntimeKind, TENSORFLOW_SERIES, TENSORFLOW_VERSION } from './manifest.ts';
export { formatBytes } from './progress.ts';

/**
 * The place of TensorFlow's libraries: found (ALAMBIC_TENSORFLOW_DIR, the cache, a Python's), else installed.
 *
 * @throws AlambicError as `findRuntime` and `installRuntime` do; RUNTIME_OFFLINE where nothing is found and nothing may be downloaded.
 * @example
 * const { folder } = await ensureRuntime();
 * const { library } = loadLibrary(folder);
 */
export async function ensureRuntime(options: InstallOptions = {}): Promise<RuntimeLocation> {
  const { gpu = false, context = {} } = options;
  const { found, refused } = await findRuntime({ gpu, context });
  if (found !== undefined) return found;
  for (const { place, reason } of refused) options.say?.(`not used: ${place}: ${reason}`);
  try {
    return await installRuntime(options);
  } catch (error) {
    if (!(error instanceof AlambicError) || refused.length === 0) throw error;
    const seen = refused.map(({ place, reason }) => `${place}: ${reason}`).join('; ');
    throw new AlambicError(error.code, `${error.message} (looked at before: ${seen})`, {
      ...(error.hint !== undefined && { hint: error.hint }),
      ...(error.at !== undefined && { at: error.at }),
      cause: error,
    });
  }
}

/** What `alambic runtime info` shows. */
export interface RuntimeDescription {
  /** Folder of the libraries; undefined where there are none. */
  readonly folder: string | undefined;
  readonly origin: RuntimeOrigin | undefined;
  /** TensorFlow's version, where it is known without loading the library. */
  readonly version: string | undefined;
  readonly kind: RuntimeKind | undefined;
  /** Bytes of the two libraries. */
  readonly bytes: number;
  /** Whether oneDNN's kernels will be asked for. */
  readonly oneDnn: boolean;
  /** Where runtimes are installed. */
  readonly cacheFolder: string;
  /** The version that would be installed. */
  readonly installs: string;
  readonly refused: readonly Refusal[];
}

/** Describes the runtime that would be used, without loading or installing it. */
export async function describeRuntime(
  options: Pick<InstallOptions, 'gpu' | 'context'> = {},
): Promise<RuntimeDescription> {
  const context = runtimeContext(options.context);
  const { found, refused } = await findRuntime({ gpu: options.gpu ?? false, context });
  const { env } = context;
  return {
    folder: found?.folder,
    origin: found?.origin,
    version: found?.version,
    kind: found?.kind,
    bytes: found === undefined ? 0 : librariesBytes(found.folder, found.platform),
    oneDnn: env['TF_ENABLE_ONEDNN_OPTS'] === undefined || isOn(env, 'TF_ENABLE_ONEDNN_OPTS'),
    cacheFolder: runtimeFolder(context),
    installs: TENSORFLOW_VERSION,
    refused,
  };
}
