import { readFile } from 'node:fs/promises';
import { AlambicError } from '../errors.ts';
import type { RunEvent } from '../plugin-host/contract.ts';

/** An event as it stands in a log: with the time at which it was written. */
export type LoggedEvent = RunEvent & { readonly time: string };

const NOT_FINITE: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
};

/** One line of JSON, newline included. JSON knows no NaN: numbers that are not finite are written as their names. */
export function logLine(event: RunEvent, time: Date): string {
  const text = JSON.stringify({ time: time.toISOString(), ...event }, (_, value: unknown) =>
    typeof value === 'number' && !Number.isFinite(value) ? String(value) : value,
  );
  return `${text}\n`;
}

/**
 * Reads a log. A last line that was cut (the process was killed while it wrote) is left out.
 *
 * @throws AlambicError LOG_MISSING, LOG_DAMAGED (another line is not JSON; `at` says which).
 * @example
 * const events = await readLog('runs/my/run.jsonl');
 */
export async function readLog(path: string): Promise<LoggedEvent[]> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (cause) {
    throw new AlambicError('LOG_MISSING', 'expected the log of a run here, cannot read it', {
      at: path,
      hint: 'Name a folder in which a run was started.',
      cause,
    });
  }
  const lines = text.split('\n');
  const events: LoggedEvent[] = [];
  lines.forEach((line, index) => {
    if (line.trim() === '') return;
    try {
      events.push(JSON.parse(line, revive) as LoggedEvent);
    } catch (cause) {
      if (index === lines.length - 1) return;
      throw new AlambicError('LOG_DAMAGED', 'expected one JSON event a line', {
        at: `${path}:${index + 1}`,
        hint: 'Remove the line; the run itself does not depend on its log.',
        cause,
      });
    }
  });
  return events;
}

function revive(key: string, value: unknown): unknown {
  const isNumber =
    key !== 'message' && key !== 'stage' && typeof value === 'string' && Object.hasOwn(NOT_FINITE, value);
  return isNumber ? NOT_FINITE[value] : value;
}
