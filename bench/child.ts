import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/** What a contender says once it has made its first step. */
export interface Ready {
  readonly versions: Readonly<Record<string, string>>;
  /** Trainable parameters of the student. */
  readonly parameters: number;
  /** Milliseconds to make the network. */
  readonly build: number;
  /** Milliseconds of the first step: tracing, compiling and running. */
  readonly firstStep: number;
  readonly loss: number;
  /** Ours: milliseconds of recording, and ops that run. */
  readonly recording?: number;
  readonly ops?: number;
}

const TAG = '@bench ';
/** Lines of a contender's stderr that are shown where it fails. */
const KEPT_LINES = 15;

/** A contender's process: kept alive, one request at a time, answers as JSON lines. */
export class Child {
  readonly #process: ChildProcess;
  readonly #stderr: string[] = [];
  readonly #lines: string[] = [];
  #waiting: ((line: string | undefined) => void) | undefined;
  #ended = false;

  constructor(command: string, args: readonly string[], environment: NodeJS.ProcessEnv) {
    this.#process = spawn(command, args, { env: environment, stdio: ['pipe', 'pipe', 'pipe'] });
    const end = () => {
      this.#ended = true;
      this.#deliver(undefined);
    };
    this.#process.on('error', (error) => {
      this.#stderr.push(error.message);
      end();
    });
    createInterface({ input: this.#process.stdout! })
      .on('line', (line) => {
        if (line.startsWith(TAG)) this.#deliver(line.slice(TAG.length));
      })
      .on('close', end);
    createInterface({ input: this.#process.stderr! }).on('line', (line) => {
      this.#stderr.push(line);
      if (this.#stderr.length > KEPT_LINES) this.#stderr.shift();
    });
    // A child that has died makes writes fail; the missing answer is the error that counts.
    this.#process.stdin!.on('error', (error) => this.#stderr.push(error.message));
  }

  get pid(): number {
    return this.#process.pid ?? -1;
  }

  /** What the process wrote last on stderr. */
  get lastWords(): string {
    return this.#stderr.join('\n');
  }

  request<T>(message: object): Promise<T> {
    this.#process.stdin!.write(`${JSON.stringify(message)}\n`);
    return this.receive<T>();
  }

  /** The next answer. */
  async receive<T>(): Promise<T> {
    const line =
      this.#lines.shift() ??
      (this.#ended ? undefined : await new Promise<string | undefined>((resolve) => (this.#waiting = resolve)));
    if (line === undefined) throw new Error(`the process ended without an answer\n${this.lastWords}`);
    return JSON.parse(line) as T;
  }

  kill(): void {
    if (!this.#ended) this.#process.kill();
  }

  #deliver(line: string | undefined): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting !== undefined) waiting(line);
    else if (line !== undefined) this.#lines.push(line);
  }
}
