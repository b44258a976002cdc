/** The one table of commands: `commands.json`, from which help and the program are made. */
export interface CommandTable {
  readonly name: string;
  readonly description: string;
  readonly options: Readonly<Record<string, OptionEntry>>;
  /** Options of every command. */
  readonly common: readonly string[];
  readonly groups: readonly { readonly title: string; readonly commands: readonly string[] }[];
  readonly commands: Readonly<Record<string, CommandEntry>>;
}

export interface OptionEntry {
  /** As commander writes them: `--run <folder>`, `-h, --help`. */
  readonly flags: string;
  readonly description: string;
  readonly repeatable?: boolean;
  readonly choices?: readonly string[];
  readonly type?: 'integer' | 'positive-integer' | 'size';
  readonly default?: string | number;
}

export interface ArgumentEntry {
  readonly name: string;
  readonly description: string;
  readonly variadic?: boolean;
  readonly choices?: readonly string[];
}

export interface CommandEntry {
  readonly description: string;
  readonly arguments: readonly ArgumentEntry[];
  readonly options: readonly string[];
  readonly examples: readonly string[];
}

export interface TextRequest {
  readonly kind: 'help' | 'version';
  readonly command?: string;
}

export function usageOf(table: CommandTable, command: string): string;
export function textRequest(table: CommandTable, args: readonly string[]): TextRequest | undefined;
export function renderText(
  table: CommandTable,
  request: TextRequest,
  look: { version: string; width: number; color: boolean },
): string;
