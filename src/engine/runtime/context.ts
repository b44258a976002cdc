import { statfs } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { driverVersion } from './driver.ts';
import { type Bundle, bundleFor, type RuntimeKind } from './manifest.ts';
import { type Machine, type PlatformName, thisMachine } from './platform.ts';

/** What the runtime depends on outside of itself; tests replace single members. */
export interface RuntimeContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly machine: Machine;
  bundle(platform: PlatformName, kind: RuntimeKind): Bundle;
  /** Bytes that may still be written on the disk of a folder. */
  freeBytes(folder: string): Promise<number>;
  /** Version of the NVIDIA driver, if there is one. */
  driver(): Promise<string | undefined>;
  /** Smallest plausible sizes in bytes of the two libraries: a pointer file or a cut copy is smaller. */
  readonly leastBytes: { readonly framework: number; readonly cc: number };
  /** Wait before the first retry of a broken connection, in ms; doubles each time. */
  readonly retryDelay: number;
}

/** The context of this process and machine, with some members replaced. */
export function runtimeContext(replaced: Partial<RuntimeContext> = {}): RuntimeContext {
  return {
    env: process.env,
    machine: thisMachine(),
    bundle: bundleFor,
    freeBytes: async (folder) => {
      const { bavail, bsize } = await statfs(folder);
      return bavail * bsize;
    },
    driver: driverVersion,
    leastBytes: { framework: 10_000_000, cc: 100_000_000 },
    retryDelay: 500,
    ...replaced,
  };
}

/** Where runtimes are kept: ALAMBIC_CACHE_DIR, else the platform's usual folder for caches. */
export function runtimeFolder({ env, machine }: Pick<RuntimeContext, 'env' | 'machine'>): string {
  const own = env['ALAMBIC_CACHE_DIR'];
  if (own) return join(resolve(own), 'runtime');
  const home = env['HOME'] || homedir();
  const caches =
    env['XDG_CACHE_HOME'] ||
    (machine.os === 'darwin'
      ? join(home, 'Library', 'Caches')
      : machine.os === 'win32'
        ? env['LOCALAPPDATA'] || join(home, 'AppData', 'Local')
        : join(home, '.cache'));
  return join(resolve(caches), 'alambic', 'runtime');
}

/** Whether a variable of the environment is switched on. */
export function isOn(env: RuntimeContext['env'], name: string): boolean {
  return !['', '0', 'false', 'no', 'off'].includes((env[name] ?? '').toLowerCase());
}
