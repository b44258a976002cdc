import 'reflect-metadata';
import { readFileSync } from 'node:fs';
import type { Command } from './command.ts';
import { errorObject, errorText, exitCodeOf } from './error-text.ts';
import type { CommandTable } from './help.mjs';
import { parseCommandLine } from './program.ts';
import { type Terminal, Writer } from './writer.ts';

/** The modules of the commands; each is loaded when it is called, so that none pays for another. */
const COMMANDS: Readonly<Record<string, () => Promise<{ run: Command }>>> = {
  start: () => import('./commands/start.ts'),
  train: () => import('./commands/train.ts'),
  distil: () => import('./commands/distil.ts'),
  check: () => import('./commands/check.ts'),
  eval: () => import('./commands/eval.ts'),
  predict: () => import('./commands/predict.ts'),
  inspect: () => import('./commands/inspect.ts'),
  runtime: () => import('./commands/runtime-command.ts'),
  plugins: () => import('./commands/plugins.ts'),
  plugin: () => import('./commands/plugin-new.ts'),
};

/** The one table of commands, arguments and options. */
export function readCommandTable(): CommandTable {
  return JSON.parse(readFileSync(new URL('./commands.json', import.meta.url), 'utf8')) as CommandTable;
}

/**
 * Runs a command line and says with which code the process should end; never throws.
 *
 * @example
 * process.exitCode = await main(process.argv.slice(2));
 */
export async function main(
  argv: readonly string[],
  terminal: Terminal = { stdout: process.stdout, stderr: process.stderr, env: process.env },
): Promise<number> {
  // Known before the command line is understood, so that even an error in it looks as it was asked for.
  let writer = new Writer(terminal, { json: argv.includes('--json'), color: !argv.includes('--no-color') });
  try {
    const { command, args, options } = parseCommandLine(readCommandTable(), argv);
    writer = new Writer(terminal, options);
    const { run } = await COMMANDS[command]!();
    return await run({ args, options, writer, commandLine: ['alambic', ...argv.map(quoteWord)].join(' ') });
  } catch (error) {
    writer.json(errorObject(error));
    writer.error(errorText(error, { colors: writer.errorColors, debug: terminal.env['ALAMBIC_DEBUG'] === '1' }));
    return exitCodeOf(error);
  }
}

/** A word as a shell would take it. */
function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
