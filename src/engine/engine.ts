import { AlambicError } from '../errors.ts';
import type { Pass } from './program/passes.ts';
import { STANDARD_PASSES } from './program/passes.ts';
import { ensureRuntime, loadLibrary } from './runtime/index.ts';
import { type NodeBackend, registerBackend } from './tensorflow/backend.ts';
import { TensorflowBinding } from './tensorflow/binding.ts';
import { type Device, openContext } from './tensorflow/context.ts';
import { bindLibrary, SYMBOLS } from './tensorflow/library.ts';
import { readOpDefs } from './tensorflow/op-defs.ts';

/** How captured functions run: op by op, as a TensorFlow function, or compiled by XLA. */
export type EngineMode = 'eager' | 'graph' | 'xla';

export interface EngineOptions {
  /** `auto` (the first GPU, else the CPU), `cpu` or `gpu:N`. @default 'auto' */
  readonly device?: string;
  /** @default 'graph' */
  readonly mode?: EngineMode;
  /** Threads within one op; 0 = all cores. @default 0 */
  readonly threads?: number;
  /** Says what is being done while the library is installed. */
  readonly say?: (line: string) => void;
}

/** The open engine: one TensorFlow context in this process. */
export interface Engine {
  /** How captured functions run unless they say otherwise. May be set. */
  mode: EngineMode;
  readonly device: Device;
  readonly devices: readonly Device[];
  /** TensorFlow's version. */
  readonly version: string;
  readonly binding: TensorflowBinding;
  readonly backend: NodeBackend;
  /** Passes each recorded program goes through. */
  readonly passes: readonly Pass[];
  /** Tensors alive. */
  tensorCount(): number;
  /** Resident memory of the process in bytes. */
  memoryBytes(): number;
}

// Two copies of alambic in one process (a plugin's own dependency, say) must share the one TensorFlow.
const KEY = Symbol.for('alambic.engine');
const shared = globalThis as { [KEY]?: Engine | Promise<Engine> | undefined };

async function open(options: EngineOptions): Promise<Engine> {
  const location = await ensureRuntime(options.say === undefined ? {} : { say: options.say });
  const loaded = loadLibrary(location.folder, SYMBOLS);
  const c = bindLibrary(loaded.library);
  const { context, devices, device } = openContext(c, {
    device: options.device ?? 'auto',
    intraThreads: options.threads ?? 0,
    interThreads: options.threads ?? 0,
  });
  const binding = new TensorflowBinding(c, context, device, readOpDefs(c));
  const backend = await registerBackend(binding);
  return {
    mode: options.mode ?? 'graph',
    device,
    devices,
    version: binding.TF_Version,
    binding,
    backend,
    passes: STANDARD_PASSES,
    tensorCount: () => binding.getNumOfTensors(),
    memoryBytes: () => process.memoryUsage.rss(),
  };
}

/**
 * Opens the engine: finds (or installs) TensorFlow's library, loads it and makes it tfjs's backend. A second call gives the same
 * engine, with the mode of the call; a different device is an error, since a process has one.
 *
 * @example
 * const { device } = await openEngine({ mode: 'graph' });
 */
export async function openEngine(options: EngineOptions = {}): Promise<Engine> {
  const present = shared[KEY];
  if (present === undefined) {
    const opening = open(options);
    shared[KEY] = opening;
    try {
      shared[KEY] = await opening;
    } catch (error) {
      shared[KEY] = undefined;
      throw error;
    }
    return shared[KEY] as Engine;
  }
  const engine = await present;
  if (options.mode !== undefined) engine.mode = options.mode;
  const wanted = options.device;
  if (
    wanted !== undefined &&
    wanted !== 'auto' &&
    !engine.device.name.toLowerCase().endsWith(wanted === 'cpu' ? 'cpu:0' : wanted)
  ) {
    throw new AlambicError('DEVICE_FIXED', `the engine is open on ${engine.device.name}, "${wanted}" was asked for`, {
      hint: 'Choose the device at the first openEngine() of a process.',
    });
  }
  return engine;
}

/** The open engine; throws ENGINE_CLOSED before `openEngine()`. */
export function engine(): Engine {
  const present = shared[KEY];
  if (present === undefined || present instanceof Promise) {
    throw new AlambicError('ENGINE_CLOSED', 'the engine is not open', { hint: 'Call `await openEngine()` first.' });
  }
  return present;
}
