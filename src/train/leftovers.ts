import nodeFs from 'node:fs/promises';
import { join } from 'node:path';
import { identityFromText, isAlive, type ProcessIdentity } from '../process-identity.ts';
import { errnoOf, type FileSystem } from './file-errors.ts';
import { statOrUndefined, syncFolder } from './folder-replacement.ts';

/** Age at which a leftover of another machine, whose processes cannot be asked, counts as dead. */
const FOREIGN_LEFTOVER_MS = 3_600_000;

/** What a folder is that was being written (`tmp`), replaced (`old`) or deleted (`gone`), and by which process. */
export interface Leftover {
  readonly name: string;
  readonly kind: 'tmp' | 'old' | 'gone';
  readonly owner: ProcessIdentity;
}

/** Reads a folder's name; `undefined` where it is an ordinary one. */
export function parseLeftover(entry: string): Leftover | undefined {
  const match = /^(.+)\.(tmp|old|gone)-([^.]+)$/.exec(entry);
  const owner = match === null ? undefined : identityFromText(match[3]!);
  return match === null || owner === undefined
    ? undefined
    : { name: match[1]!, kind: match[2] as Leftover['kind'], owner };
}

/**
 * Removes what killed processes left in a folder: half-written and half-deleted folders. One that was being replaced is put back where its
 * successor did not arrive. What belongs to living processes is left alone.
 *
 * @returns Names of what was removed or put back.
 */
export async function cleanLeftovers(folder: string, fs: FileSystem = nodeFs): Promise<string[]> {
  const cleaned: string[] = [];
  for (const entry of await fs.readdir(folder)) {
    const leftover = parseLeftover(entry);
    const path = join(folder, entry);
    if (leftover === undefined || !(await isDead(fs, path, leftover.owner))) continue;
    const target = join(folder, leftover.name);
    try {
      if (leftover.kind === 'old' && (await statOrUndefined(fs, target)) === undefined) {
        await fs.rename(path, target);
        await syncFolder(fs, folder);
      } else await fs.rm(path, { recursive: true, force: true });
      cleaned.push(entry);
    } catch (error) {
      // A folder that may only be read (an evaluation of somebody else's run) keeps its leftovers; another process may clean at the same time.
      if (!['EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ENOTEMPTY', 'EEXIST'].includes(errnoOf(error) ?? '')) throw error;
    }
  }
  return cleaned;
}

async function isDead(fs: FileSystem, path: string, owner: ProcessIdentity): Promise<boolean> {
  const alive = isAlive(owner);
  if (alive !== undefined) return !alive;
  const stat = await statOrUndefined(fs, path);
  return stat !== undefined && Date.now() - stat.mtimeMs > FOREIGN_LEFTOVER_MS;
}
