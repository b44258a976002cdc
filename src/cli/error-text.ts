import { AlambicError, EXIT } from '../errors.ts';
import type { Colors } from '../loggers/colors.ts';

/** Errors of the system that the user can do something about, so that they need no stack. */
const SYSTEM: Readonly<Record<string, string>> = {
  ENOENT: 'Check the path.',
  EACCES: 'Check the permissions of the file or folder.',
  EROFS: 'Choose a folder on a file system that can be written.',
  ENOSPC: 'Free some space; what was saved so far is whole.',
  EISDIR: 'Name a file, not a folder.',
  ENOTDIR: 'Check the path: a part of it is a file.',
};

/** Codes that say that what was asked for cannot be: the command line, a recipe or the data. */
const USAGE =
  /^(USAGE|RECIPE|UNKNOWN|PLUGIN|DATA|PRECONDITION|MODEL|RUN_FOLDER|LOG_MISSING|GROUP|SPLIT|IMAGE|WEIGHTS|LABELS)/;

/** The exit code for an error. */
export function exitCodeOf(error: unknown): number {
  if (!(error instanceof AlambicError)) return EXIT.failure;
  if (error.code === 'INTERRUPTED') return EXIT.interrupted;
  return USAGE.test(error.code) ? EXIT.usage : EXIT.failure;
}

/**
 * An error for people: code and message, where, what to do; the stack only where it is not one of ours, or with ALAMBIC_DEBUG=1.
 * Errors that hold several (`errors`) are shown one after another.
 */
export function errorText(error: unknown, options: { colors: Colors; debug: boolean }): string {
  const { colors, debug } = options;
  if (error instanceof AlambicError) {
    const several = problemsIn(error);
    if (several.length > 1) return several.map((one) => errorText(one, options)).join('\n\n');
    const lines = [`${colors.red(colors.bold('error'))} ${error.message} ${colors.dim(`[${error.code}]`)}`];
    if (error.at !== undefined) lines.push(`   ${colors.dim('at')} ${error.at}`);
    if (error.plugin !== undefined) lines.push(`   ${colors.dim('in')} plugin ${error.plugin}`);
    if (error.hint !== undefined) lines.push(`  ${colors.cyan('try')} ${error.hint}`);
    if (debug) lines.push(colors.dim(stackOf(error)));
    return lines.join('\n');
  }
  const code = (error as { code?: unknown } | null)?.code;
  if (error instanceof Error && typeof code === 'string' && code in SYSTEM) {
    const lines = [`${colors.red(colors.bold('error'))} ${error.message}`, `  ${colors.cyan('try')} ${SYSTEM[code]}`];
    return debug ? [...lines, colors.dim(stackOf(error))].join('\n') : lines.join('\n');
  }
  const message = error instanceof Error ? error.message : String(error);
  return [
    `${colors.red(colors.bold('unexpected error'))} ${message}`,
    colors.dim(error instanceof Error ? stackOf(error) : new Error(message).stack!),
    `  ${colors.cyan('try')} This is a fault of alambic or of a plugin: please report it with the lines above.`,
  ].join('\n');
}

/** An error as data, for `--json`. */
export function errorObject(error: unknown): Record<string, unknown> {
  const { message } = error instanceof Error ? error : { message: String(error) };
  if (!(error instanceof AlambicError)) return { type: 'error', code: 'UNEXPECTED', message };
  const { code, hint, at, plugin } = error;
  const several = problemsIn(error);
  return {
    type: 'error',
    code,
    message,
    hint,
    at,
    plugin,
    ...(several.length > 1 ? { errors: several.map(errorObject) } : {}),
  };
}

function problemsIn(error: AlambicError): readonly AlambicError[] {
  const { problems, errors } = error as { problems?: unknown; errors?: unknown };
  const list = Array.isArray(problems) ? problems : Array.isArray(errors) ? errors : [];
  return list.filter((one): one is AlambicError => one instanceof AlambicError && one !== error);
}

function stackOf(error: Error): string {
  const own = error.stack ?? error.message;
  return error.cause instanceof Error ? `${own}\ncaused by ${stackOf(error.cause)}` : own;
}
