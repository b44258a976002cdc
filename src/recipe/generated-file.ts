import { readFileSync, writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * Command line of a script that generates a committed file: `--write` writes it, `--check` says whether the committed one is current
 * (exit code 1 where it is not).
 */
export function runGenerator(file: URL, generate: () => string, args: readonly string[]): void {
  const name = relative(process.cwd(), fileURLToPath(file));
  if (args.includes('--write')) {
    writeFileSync(file, generate());
    process.stdout.write(`wrote ${name}\n`);
  } else if (args.includes('--check')) {
    const isCurrent = isGenerated(file, generate());
    process.stdout.write(isCurrent ? `${name} is current\n` : `${name} is out of date: run this script with --write\n`);
    process.exitCode = isCurrent ? 0 : 1;
  } else {
    process.stderr.write('expected --write or --check\n');
    process.exitCode = 2;
  }
}

/** Whether a file holds exactly this text. */
export function isGenerated(file: URL, text: string): boolean {
  try {
    return readFileSync(file, 'utf8') === text;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}
