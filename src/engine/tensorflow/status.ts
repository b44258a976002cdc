import { AlambicError } from '../../errors.ts';
import type { Origin } from '../program/program.ts';
import type { Library, Pointer } from './library.ts';

const CODES: Readonly<Record<number, string>> = {
  1: 'TENSORFLOW_CANCELLED',
  2: 'TENSORFLOW_UNKNOWN',
  3: 'TENSORFLOW_INVALID_ARGUMENT',
  4: 'TENSORFLOW_DEADLINE_EXCEEDED',
  5: 'TENSORFLOW_NOT_FOUND',
  6: 'TENSORFLOW_ALREADY_EXISTS',
  7: 'TENSORFLOW_PERMISSION_DENIED',
  8: 'OUT_OF_MEMORY',
  9: 'TENSORFLOW_FAILED_PRECONDITION',
  10: 'TENSORFLOW_ABORTED',
  11: 'TENSORFLOW_OUT_OF_RANGE',
  12: 'TENSORFLOW_UNIMPLEMENTED',
  13: 'TENSORFLOW_INTERNAL',
  14: 'TENSORFLOW_UNAVAILABLE',
};

const ENGINE_FOLDER = new URL('../', import.meta.url).href;

/** Notes the present call stack; it costs little because V8 formats it only when it is read. */
export function captureOrigin(below: (...args: never[]) => unknown): Origin {
  const origin: Origin = {};
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 50;
  Error.captureStackTrace(origin, below);
  Error.stackTraceLimit = limit;
  return origin;
}

/** `file:line:col` of the innermost frame outside of the engine and of packages: the user's line. */
export function userLine(origin: Origin | undefined): string | undefined {
  const lines = origin?.stack?.split('\n').slice(1) ?? [];
  for (const line of lines) {
    const place = /\(?((?:file:\/\/|\/|[A-Za-z]:\\)[^()]*?:\d+:\d+)\)?$/.exec(line.trim())?.[1];
    if (place === undefined || place.includes('node_modules')) continue;
    // tfjs ships source maps, so its frames show paths that exist nowhere, such as <cwd>/tfjs-core/src/engine.ts.
    if (/[\\/]tfjs(-[a-z-]+)?[\\/]src[\\/]/.test(place)) continue;
    const path = place.replace(/^file:\/\//, '');
    if (path.includes(ENGINE_FOLDER.replace(/^file:\/\//, ''))) continue;
    return path;
  }
  return undefined;
}

/** The AlambicError of a failed call, with the op and the user's line where they are known. */
export function tensorflowError(code: number, message: string, op?: string, origin?: Origin): AlambicError {
  const name = CODES[code] ?? `TENSORFLOW_${code}`;
  const at = userLine(origin);
  const short = message.replace(/\s*\[Op:[^\]]*\]\s*$/, '').trim();
  return new AlambicError(name, op === undefined ? short : `op ${op}: ${short}`, {
    ...(at === undefined ? {} : { at }),
    hint:
      name === 'OUT_OF_MEMORY'
        ? 'Use a smaller batch with `accumulate`, a smaller input size, or a device with more memory.'
        : 'The op and the line that made it are named above; check the shapes and types of its inputs.',
  });
}

/** A TF_Status that turns failures into errors. One per thread of calls: an async call needs its own. */
export class Status {
  readonly pointer: Pointer;
  readonly #c: Library;

  constructor(c: Library) {
    this.#c = c;
    this.pointer = c.newStatus();
  }

  get failed(): boolean {
    return this.#c.code(this.pointer) !== 0;
  }

  /** Throws the status's error, if it holds one. */
  check(op?: string, origin?: () => Origin | undefined): void {
    const code = this.#c.code(this.pointer);
    if (code !== 0) throw tensorflowError(code, this.#c.message(this.pointer), op, origin?.());
  }

  get message(): string {
    return this.#c.message(this.pointer);
  }

  get code(): number {
    return this.#c.code(this.pointer);
  }

  delete(): void {
    this.#c.deleteStatus(this.pointer);
  }
}
