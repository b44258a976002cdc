import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';

/** Names a process so that another one can tell later whether it still runs. A bare pid is not enough: it is used again, in containers at once. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Short hash of the machine's name. */
  readonly host: string;
  /** Start time in clock ticks since boot; `x` where the system does not tell. */
  readonly start: string;
}

const HOST = createHash('sha256').update(hostname()).digest('hex').slice(0, 8);

/** The process that runs this code. */
export function thisProcess(): ProcessIdentity {
  return { pid: process.pid, host: HOST, start: startOf(process.pid) ?? 'x' };
}

/** Whether a process runs: `undefined` where it belongs to another machine and cannot be asked. */
export function isAlive({ pid, host, start }: ProcessIdentity): boolean | undefined {
  if (host !== HOST) return undefined;
  if (!exists(pid)) return false;
  const now = startOf(pid);
  return now === undefined || start === 'x' || now === start;
}

/** The identity as part of a file name: letters, digits and dashes. */
export function identityToText({ pid, host, start }: ProcessIdentity): string {
  return `${pid}-${host}-${start}`;
}

export function identityFromText(text: string): ProcessIdentity | undefined {
  const match = /^(\d+)-([0-9a-f]{8})-(\d+|x)$/.exec(text);
  return match === null ? undefined : { pid: Number(match[1]), host: match[2]!, start: match[3]! };
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it is there and belongs to somebody else.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function startOf(pid: number): string | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    // No /proc (macOS, Windows), or the process has just ended.
    return undefined;
  }
  // The command in parentheses may hold spaces; field 22 (starttime) is the 20th after it. A zombie (Z) writes nothing any more.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' ? 'ended' : fields[19];
}
