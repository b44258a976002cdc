import type { Command } from '../command.ts';
import { runRuntimeCommand } from './runtime.ts';

/** `alambic runtime install | info | remove`. */
export const run: Command = async ({ args, options: { gpu, from, offline }, writer }) => {
  const action = args[0] as 'install' | 'info' | 'remove';
  const json = writer.mode === 'json';
  const { stdout } = writer.terminal;
  await runRuntimeCommand(
    action,
    { gpu, from, offline, json },
    {
      write: (line) => {
        if (json || action === 'info') stdout.write(`${line}\n`);
        else writer.line(line);
      },
      isTerminal: writer.mode === 'live',
      terminal: stdout,
    },
  );
  return 0;
};
