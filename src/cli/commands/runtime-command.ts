import { EXIT } from '../../errors.ts';
import type { Command } from '../command.ts';
import { runRuntimeCommand } from './runtime.ts';

/** `alambic runtime install | info | remove`. */
export const run: Command = async ({ args, options, writer }) => {
  const action = args[0] as 'install' | 'info' | 'remove';
  const { gpu, from, offline, force: yes } = options;
  const json = writer.mode === 'json';
  await runRuntimeCommand(
    action,
    { gpu, from, offline, yes, json },
    {
      // What `info` tells is the result; what `install` tells is on the way to it.
      write: (line) => (action === 'info' || json ? writer.text(line) : writer.line(line)),
      isTerminal: writer.mode === 'live',
      terminal: writer.terminal.stderr,
    },
  );
  return EXIT.ok;
};
