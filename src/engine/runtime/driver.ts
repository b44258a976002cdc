import { existsSync, readFileSync } from 'node:fs';
import { AlambicError } from '../../errors.ts';
import { runCommand } from './run-command.ts';

/** The oldest driver that runs CUDA 12 (by CUDA's minor version compatibility). */
export const OLDEST_DRIVER = '525.60.13';

/** Whether an NVIDIA driver is loaded in this machine's kernel (or, under WSL, in its host's). */
export function hasNvidiaDevice(): boolean {
  return existsSync('/proc/driver/nvidia/version') || existsSync('/usr/lib/wsl/lib/libcuda.so.1');
}

/** Version of the NVIDIA driver, such as `550.54.15`; undefined where there is none. */
export async function driverVersion(): Promise<string | undefined> {
  const path = '/proc/driver/nvidia/version';
  if (existsSync(path)) {
    const version = driverVersionIn(readFileSync(path, 'utf8'));
    if (version !== undefined) return version;
  }
  for (const command of ['nvidia-smi', '/usr/lib/wsl/lib/nvidia-smi']) {
    const result = await runCommand(command, ['--query-gpu=driver_version', '--format=csv,noheader']);
    const version = result.ok ? /^\d+\.\d+(\.\d+)?$/m.exec(result.stdout)?.[0] : undefined;
    if (version !== undefined) return version;
  }
  return undefined;
}

/** The driver's version in the text of /proc/driver/nvidia/version. */
export function driverVersionIn(text: string): string | undefined {
  return /Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s/.exec(text)?.[1];
}

/**
 * Checks that a driver runs CUDA 12.
 *
 * @throws AlambicError RUNTIME_DRIVER where there is none or it is too old.
 */
export function checkDriver(version: string | undefined): void {
  const skip = 'To prepare an image for another machine, set ALAMBIC_ANY_DRIVER=1.';
  if (version === undefined) {
    throw new AlambicError('RUNTIME_DRIVER', 'expected an NVIDIA driver, found none', {
      hint: `Install NVIDIA's driver (${OLDEST_DRIVER} or newer; in a container, start it with \`--gpus all\`), or leave --gpu out. ${skip}`,
    });
  }
  if (compareVersions(version, OLDEST_DRIVER) < 0) {
    throw new AlambicError('RUNTIME_DRIVER', `expected NVIDIA driver ${OLDEST_DRIVER} or newer, found ${version}`, {
      hint: `Update the driver: CUDA 12 does not run on this one. ${skip}`,
    });
  }
}

function compareVersions(a: string, b: string): number {
  const x = a.split('.').map(Number);
  const y = b.split('.').map(Number);
  for (let i = 0; i < Math.max(x.length, y.length); i++) {
    const difference = (x[i] ?? 0) - (y[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
