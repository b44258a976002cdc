import { readFileSync } from 'node:fs';
import { AlambicError } from '../../errors.ts';

/** What of a machine decides which TensorFlow fits; tests hand in their own. */
export interface Machine {
  readonly os: NodeJS.Platform;
  readonly cpu: string;
  /** Version of glibc; undefined on macOS, Windows and on a Linux with another C library (Alpine). */
  readonly glibc?: string | undefined;
  /** False where an x86_64 processor has no AVX, which TensorFlow is compiled for. */
  readonly avx: boolean;
}

/** The platforms that TensorFlow 2.21 has libraries for. */
export type PlatformName = 'linux-x86_64' | 'linux-aarch64' | 'macos-arm64';

/** File names of the two libraries, the one that must be opened first in front. */
export interface LibraryNames {
  readonly framework: string;
  readonly cc: string;
}

/** The lowest glibc that the Linux wheels run with. */
const GLIBC: readonly [number, number] = [2, 27];

let present: Machine | undefined;

/** The machine that this process runs on. */
export function thisMachine(): Machine {
  present ??= { os: process.platform, cpu: process.arch, glibc: glibcVersion(), avx: hasAvx() };
  return present;
}

/**
 * Which of TensorFlow's platforms a machine is.
 *
 * @throws AlambicError RUNTIME_PLATFORM, saying why and what to do, where TensorFlow has no library for it.
 */
export function platformOf(machine: Machine = thisMachine()): PlatformName {
  const { os, cpu } = machine;
  if (os === 'linux' && (cpu === 'x64' || cpu === 'arm64')) {
    checkLinux(machine);
    return cpu === 'x64' ? 'linux-x86_64' : 'linux-aarch64';
  }
  if (os === 'darwin' && cpu === 'arm64') return 'macos-arm64';
  const what = `expected Linux (x86_64, aarch64) or macOS (Apple silicon), this is ${os} on ${cpu}`;
  if (os === 'win32') {
    throw new AlambicError('RUNTIME_PLATFORM', what, {
      hint:
        "TensorFlow's Windows build is one DLL that needs a CPython beside it and cannot be loaded by Node. " +
        'Run alambic inside WSL 2 (`wsl --install`), where the Linux libraries work, GPU included.',
    });
  }
  throw new AlambicError('RUNTIME_PLATFORM', what, {
    hint:
      os === 'darwin'
        ? 'TensorFlow has no libraries for Intel Macs since 2.17. Use a Linux machine or container.'
        : 'Use one of those platforms; TensorFlow publishes no libraries for others.',
  });
}

function checkLinux({ cpu, glibc, avx }: Machine): void {
  const [major = 0, minor = 0] = (glibc ?? '0.0').split('.').map(Number);
  if (major < GLIBC[0] || (major === GLIBC[0] && minor < GLIBC[1])) {
    throw new AlambicError(
      'RUNTIME_PLATFORM',
      `expected glibc ${GLIBC.join('.')} or newer, this Linux has ${glibc === undefined ? 'another C library (musl?)' : glibc}`,
      {
        hint: 'Use a distribution with a current glibc: Debian, Ubuntu, Fedora (not Alpine; `node:20-bookworm` works).',
      },
    );
  }
  if (cpu === 'x64' && !avx) {
    throw new AlambicError('RUNTIME_PLATFORM', 'expected a processor with AVX, this one has none', {
      hint: "TensorFlow's wheels are compiled for AVX. In a virtual machine, let it see the host's processor.",
    });
  }
}

/** Names of the libraries on a platform. */
export function libraryNames(platform: PlatformName): LibraryNames {
  return platform === 'macos-arm64'
    ? { framework: 'libtensorflow_framework.2.dylib', cc: 'libtensorflow_cc.2.dylib' }
    : { framework: 'libtensorflow_framework.so.2', cc: 'libtensorflow_cc.so.2' };
}

function glibcVersion(): string | undefined {
  if (process.platform !== 'linux') return undefined;
  // Without this (Node 22 on) the report looks up the names of all network peers, which can take seconds.
  Object.assign(process.report, { excludeNetwork: true });
  const { header } = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return header?.glibcVersionRuntime;
}

function hasAvx(): boolean {
  if (process.platform !== 'linux' || process.arch !== 'x64') return true;
  try {
    const flags = /^flags\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1];
    return flags === undefined || / avx /.test(`${flags} `);
  } catch {
    // No /proc: nothing is known against it.
    return true;
  }
}
