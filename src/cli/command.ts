import type { Writer } from './writer.ts';

/** Options as they come from the command line, already checked; absent where they were not given. */
export interface CommandOptions {
  readonly set?: readonly string[];
  readonly run?: string;
  readonly resume?: boolean;
  readonly engine?: 'eager' | 'graph' | 'xla';
  readonly device?: string;
  readonly seed?: number;
  readonly limit?: number;
  readonly data?: string;
  readonly split?: string;
  readonly top?: number;
  readonly input?: readonly [number, number, number];
  readonly classes?: number;
  readonly taps?: boolean;
  readonly parameters?: boolean;
  readonly gpu?: boolean;
  readonly from?: string;
  readonly offline?: boolean;
  readonly force?: boolean;
  readonly kind?: string;
  readonly recipe?: string;
  readonly folder?: string;
}

/** A call of a command. */
export interface CommandCall {
  /** Arguments by order; a variadic one is a list. */
  readonly args: readonly (string | readonly string[])[];
  readonly options: CommandOptions;
  readonly writer: Writer;
  /** The command line as it was typed, for the report. */
  readonly commandLine: string;
}

/** A command's module exports one of these as `run`: it resolves to the exit code, or throws. */
export type Command = (call: CommandCall) => Promise<number>;
