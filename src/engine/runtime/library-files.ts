import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { RuntimeContext } from './context.ts';
import { libraryNames, type PlatformName } from './platform.ts';

/** Why a folder is not TensorFlow's for a platform, or undefined where it is. */
export function refusalOf(
  folder: string,
  platform: PlatformName,
  least: RuntimeContext['leastBytes'],
): string | undefined {
  const names = libraryNames(platform);
  for (const part of ['framework', 'cc'] as const) {
    const path = join(folder, names[part]);
    const size = fileSize(path);
    if (size === undefined) return `${names[part]} is not in ${folder}`;
    if (size < least[part]) return `${path} has ${size} bytes, too few for TensorFlow`;
    const found = formatOf(path);
    if (found !== platform)
      return `${path} is ${found === undefined ? 'no library' : `for ${found}`}, not for ${platform}`;
  }
  return undefined;
}

/** Bytes of both libraries together. */
export function librariesBytes(folder: string, platform: PlatformName): number {
  const names = libraryNames(platform);
  return [names.framework, names.cc].reduce((sum, name) => sum + (fileSize(join(folder, name)) ?? 0), 0);
}

function fileSize(path: string): number | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() ? stat.size : undefined;
}

/** The platform that a library is for, by the first bytes of an ELF or Mach-O file. */
function formatOf(path: string): PlatformName | 'another system' | undefined {
  const head = Buffer.alloc(20);
  const file = openSync(path, 'r');
  try {
    if (readSync(file, head, 0, head.length, 0) < head.length) return undefined;
  } finally {
    closeSync(file);
  }
  if (head.readUInt32BE(0) === 0x7f454c46) {
    const machine = head.readUInt16LE(18);
    return machine === 62 ? 'linux-x86_64' : machine === 183 ? 'linux-aarch64' : 'another system';
  }
  if (head.readUInt32LE(0) === 0xfeedfacf)
    return head.readUInt32LE(4) === 0x0100000c ? 'macos-arm64' : 'another system';
  return head.readUInt16BE(0) === 0x4d5a ? 'another system' : undefined;
}
