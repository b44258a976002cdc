import { readFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

/** The machine that the numbers hold for. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly vectors: string;
  readonly system: string;
  readonly node: string;
}

function readProc(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

export function describeMachine(): Machine {
  const flags = /^flags\s*:\s*(.*)$/m.exec(readProc('/proc/cpuinfo') ?? '')?.[1]?.split(' ') ?? [];
  const widest = ['amx_tile', 'avx512_bf16', 'avx512_vnni', 'avx512f', 'avx2'].find((flag) => flags.includes(flag));
  return {
    cpu: cpus()[0]?.model.trim() ?? process.arch,
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    vectors: widest ?? '',
    system: `${process.platform} ${release().split('-')[0]}`,
    node: process.versions.node,
  };
}

/** Waits until the load average of a minute is below `limit`, at most `seconds`. Gives the load then. */
export async function waitForQuiet(limit: number, seconds: number): Promise<number> {
  const until = Date.now() + seconds * 1000;
  while (loadavg()[0]! >= limit && Date.now() < until) await sleep(2000);
  return loadavg()[0]!;
}

/** CPU ticks that the machine spent busy, and those of one process with all its threads. Linux only. */
function readTicks(pid: number): { busy: number; total: number; own: number } | undefined {
  const machine = readProc('/proc/stat');
  const own = readProc(`/proc/${pid}/stat`);
  if (machine === undefined || own === undefined) return undefined;
  const [user, nice, system, idle, wait, irq, soft, steal] = machine.split('\n')[0]!.split(/\s+/).slice(1).map(Number);
  const busy = user! + nice! + system! + irq! + soft! + steal!;
  // Fields 14 and 15; the name in field 2 may hold spaces, so counting starts behind it.
  const fields = own.slice(own.lastIndexOf(')') + 2).split(' ');
  return { busy, total: busy + idle! + wait!, own: Number(fields[11]) + Number(fields[12]) };
}

/** Milliseconds of a tick: Linux's USER_HZ is 100 on every common platform. */
const TICK = 10;

/** What `/proc` knows of a turn; undefined elsewhere. */
export interface Usage {
  /** Share 0..1 of the machine's CPU time that processes other than the measured one took. */
  readonly noise: number;
  /** CPU milliseconds of the measured one, all threads. */
  readonly cpu: number;
}

/** Runs `run` and says what the process `pid` and all others used meanwhile. */
export async function watchUsage<T>(
  pid: number,
  run: () => Promise<T>,
): Promise<{ result: T; usage: Usage | undefined }> {
  const before = readTicks(pid);
  const result = await run();
  const after = readTicks(pid);
  if (before === undefined || after === undefined || after.total === before.total) return { result, usage: undefined };
  const own = after.own - before.own;
  const foreign = after.busy - before.busy - own;
  return { result, usage: { noise: Math.max(0, foreign / (after.total - before.total)), cpu: own * TICK } };
}
