import { relative } from 'node:path';
import { AlambicError, EXIT } from '../../errors.ts';
import { PLUGIN_KINDS } from '../../plugin-host/contract.ts';
import type { Command } from '../command.ts';
import { scaffoldPlugin } from './plugin.ts';

/** `alambic plugin new NAME --kind KIND`: makes a plugin that works, with its test. */
export const run: Command = async ({ args, options, writer }) => {
  const name = args[1] as string;
  if (options.kind === undefined) {
    throw new AlambicError('USAGE', 'expected --kind: what kind of plugin?', {
      hint: `One of ${PLUGIN_KINDS.join(', ')}.`,
    });
  }
  const { folder, files } = scaffoldPlugin(name, options.kind, options.folder ?? 'plugins');
  const shown = relative('.', folder) || '.';
  writer.result(
    [
      `Made the ${options.kind} plugin ${name}:`,
      ...files.map((file) => `  ${shown}/${file}`),
      `Its test: npx vitest run ${shown}`,
    ].join('\n'),
    { folder, files },
  );
  return EXIT.ok;
};
