#!/usr/bin/env node
// Shows help and the version by itself, at once; only a real command loads TypeScript and the program.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { renderText, textRequest } from '../src/cli/help.mjs';

const read = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'));
const args = process.argv.slice(2);
const table = read('../src/cli/commands.json');
const request = textRequest(table, args);

if (request !== undefined) {
  const color = process.stdout.isTTY === true && !args.includes('--no-color') && !process.env.NO_COLOR;
  const width = Math.min(process.stdout.columns ?? 100, 110);
  process.stdout.write(renderText(table, request, { version: read('../package.json').version, width, color }));
} else {
  const { register } = await import('tsx/esm/api');
  // Our own tsconfig, whatever folder we are called in: decorators and the path `alambic/plugin` come from it.
  register({ tsconfig: fileURLToPath(new URL('../tsconfig.json', import.meta.url)) });
  const { main } = await import('../src/cli/main.ts');
  process.exitCode = await main(args);
}
