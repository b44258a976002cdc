import { Argument, Command as Commander, CommanderError, InvalidArgumentError, Option } from 'commander';
import { AlambicError, unknownName } from '../errors.ts';
import type { CommandOptions } from './command.ts';
import { type CommandTable, type OptionEntry, usageOf } from './help.mjs';

/** What a command line asks for. */
export interface ParsedCall {
  readonly command: string;
  readonly args: readonly (string | readonly string[])[];
  readonly options: CommandOptions & { readonly json?: boolean; readonly quiet?: boolean; readonly color?: boolean };
}

/**
 * Reads a command line by the table of commands.
 *
 * @throws AlambicError UNKNOWN_COMMAND, UNKNOWN_OPTION, USAGE.
 */
export function parseCommandLine(table: CommandTable, argv: readonly string[]): ParsedCall {
  const [first] = argv.filter((word) => !word.startsWith('-'));
  if (first !== undefined && !Object.hasOwn(table.commands, first)) {
    throw unknownName('UNKNOWN_COMMAND', 'command', first, Object.keys(table.commands));
  }
  let parsed: ParsedCall | undefined;
  const program = new Commander(table.name);
  configure(program);
  for (const name of Object.keys(table.commands)) {
    const command = program.command(name);
    configure(command);
    const entry = table.commands[name]!;
    for (const { name: title, description, variadic, choices } of entry.arguments) {
      const argument = new Argument(`<${title}${variadic ? '...' : ''}>`, description);
      command.addArgument(choices === undefined ? argument : argument.choices([...choices]));
    }
    for (const key of [...entry.options, ...table.common]) {
      if (key !== 'help') command.addOption(optionOf(table.options[key]!));
    }
    command.action((...values: unknown[]) => {
      const args = values.slice(0, entry.arguments.length) as ParsedCall['args'];
      parsed = { command: name, args, options: command.opts() };
    });
  }
  try {
    program.parse([...argv], { from: 'user' });
  } catch (error) {
    throw error instanceof CommanderError ? explain(table, first, error) : error;
  }
  if (parsed === undefined) {
    throw new AlambicError('USAGE', 'expected a command', { hint: `\`${table.name} --help\` lists them.` });
  }
  return parsed;
}

/** Help is the launcher's; errors are thrown, not printed. */
function configure(command: Commander): void {
  command
    .helpOption(false)
    .helpCommand(false)
    .showSuggestionAfterError(false)
    .allowExcessArguments(false)
    .exitOverride()
    .configureOutput({ writeErr: () => undefined, writeOut: () => undefined });
}

function optionOf({ flags, description, repeatable, choices, type, default: value }: OptionEntry): Option {
  const option = new Option(flags, description);
  if (choices !== undefined) option.choices([...choices]);
  if (value !== undefined) option.default(value);
  if (repeatable) option.argParser((text: string, before: readonly string[] | undefined) => [...(before ?? []), text]);
  if (type === 'integer') option.argParser((text: string) => integer(text, 0));
  if (type === 'positive-integer') option.argParser((text: string) => integer(text, 1));
  if (type === 'size') option.argParser(size);
  return option;
}

function integer(text: string, least: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < least) {
    throw new InvalidArgumentError(`expected a whole number from ${least} on`);
  }
  return value;
}

function size(text: string): [number, number, number] {
  const match = /^([1-9]\d{0,4})x([1-9]\d{0,4})x([1-9]\d?)$/.exec(text);
  if (match === null) throw new InvalidArgumentError('expected height x width x channels, such as 32x32x3');
  return [Number(match[1]), Number(match[2]), Number(match[3])];
}

function explain(table: CommandTable, command: string | undefined, error: CommanderError): AlambicError {
  const entry = command === undefined ? undefined : table.commands[command];
  const usage = command === undefined || entry === undefined ? `${table.name} <command>` : usageOf(table, command);
  const help = `\`${table.name}${command === undefined ? '' : ` ${command}`} --help\` shows how it is called.`;
  const quoted = /'([^']*)'/.exec(error.message)?.[1];
  if (error.code === 'commander.unknownOption' && quoted !== undefined) {
    const keys = [...(entry?.options ?? []), ...table.common];
    const known = keys.map((key) => /--[\w-]+/.exec(table.options[key]!.flags)![0]);
    return unknownName('UNKNOWN_OPTION', 'option', quoted.split('=')[0]!, known);
  }
  const message = error.message.replace(/^error: /, '');
  if (error.code === 'commander.missingArgument') {
    return new AlambicError('USAGE', `expected ${quoted}: ${usage}`, { hint: help });
  }
  return new AlambicError('USAGE', message, { hint: help });
}
