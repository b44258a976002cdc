import { type Colors, createColors } from '../loggers/colors.ts';

/** How a command's output looks: redrawn, lines, JSON, or the result only. */
export type OutputMode = 'live' | 'plain' | 'json' | 'quiet';

/** What of a process the output depends on; tests hand in their own. */
export interface Terminal {
  readonly stdout: NodeJS.WritableStream & { isTTY?: boolean; columns?: number };
  readonly stderr: NodeJS.WritableStream & { isTTY?: boolean };
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface OutputOptions {
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
  /** False for `--no-color`. */
  readonly color?: boolean | undefined;
}

/** The one way in which commands write: results and progress to stdout, what goes wrong to stderr. */
export class Writer {
  readonly mode: OutputMode;
  readonly colors: Colors;
  readonly errorColors: Colors;
  readonly terminal: Terminal;

  constructor(terminal: Terminal, options: OutputOptions = {}) {
    this.terminal = terminal;
    const { stdout, stderr, env } = terminal;
    const live = stdout.isTTY === true && env['TERM'] !== 'dumb' && !env['CI'];
    this.mode = options.json ? 'json' : options.quiet ? 'quiet' : live ? 'live' : 'plain';
    const wanted = options.color !== false && !env['NO_COLOR'];
    const forced = Boolean(env['FORCE_COLOR']) && env['FORCE_COLOR'] !== '0';
    this.colors = createColors(wanted && (forced || stdout.isTTY === true) && this.mode !== 'json');
    this.errorColors = createColors(wanted && (forced || stderr.isTTY === true));
  }

  /** Columns of the terminal; 100 where it is none. */
  get width(): number {
    return this.terminal.stdout.columns ?? 100;
  }

  /** A line on the way to a result; only for people who watch. */
  line(text = ''): void {
    if (this.mode === 'live' || this.mode === 'plain') this.terminal.stdout.write(`${text}\n`);
  }

  /** What the command was called for: text for people, or the value itself with `--json`. */
  result(text: string, value: unknown): void {
    if (this.mode === 'json') this.json(value);
    else this.text(text);
  }

  /** A line of a result that is already as it was asked for. */
  text(line: string): void {
    this.terminal.stdout.write(`${line}\n`);
  }

  /** One object on one line, only with `--json`. */
  json(value: unknown): void {
    if (this.mode !== 'json') return;
    const text = JSON.stringify(value, (_, v: unknown) =>
      typeof v === 'number' && !Number.isFinite(v) ? String(v) : v,
    );
    this.terminal.stdout.write(`${text}\n`);
  }

  /** Something the user should know that does not stop the command. */
  warn(text: string): void {
    this.terminal.stderr.write(`${this.errorColors.yellow('warning')} ${text}\n`);
  }

  /** What went wrong. */
  error(text: string): void {
    this.terminal.stderr.write(`${text}\n`);
  }
}
