import { execFile } from 'node:child_process';

/** What a program said and how it ended. */
export interface CommandResult {
  readonly ok: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program without a shell; one that is not there, fails or takes too long gives `ok: false`. */
export function runCommand(
  command: string,
  args: readonly string[],
  options: { env?: NodeJS.ProcessEnv; seconds?: number } = {},
): Promise<CommandResult> {
  return new Promise((resolve) => {
    execFile(
      command,
      [...args],
      {
        env: options.env ?? process.env,
        timeout: (options.seconds ?? 20) * 1000,
        maxBuffer: 16 * 2 ** 20,
        windowsHide: true,
      },
      (error, stdout, stderr) =>
        resolve({ ok: error === null, stdout, stderr: error === null ? stderr : stderr || error.message }),
    );
  });
}
