#!/usr/bin/env node
// Shows help and the version by itself, at once; only a real command loads the program.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

// The repository runs its TypeScript as it is; an installed package has JavaScript made of it (pack/build.mjs).
const isRepository = existsSync(new URL('../src/cli/main.ts', import.meta.url));
const folder = isRepository ? '../src' : '../dist';
if (!existsSync(new URL(`${folder}/cli/help.mjs`, import.meta.url))) {
  process.stderr.write(
    'alambic: this package was packed without dist/; the repository packs itself by `npm run pack`.\n',
  );
  process.exit(1);
}
const { renderText, textRequest } = await import(`${folder}/cli/help.mjs`);

// Whoever reads our output may stop early (`| head`): that is no error.
process.stdout.on('error', (error) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
});

const read = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'));
const args = process.argv.slice(2);
const table = read(`${folder}/cli/commands.json`);
const request = textRequest(table, args);

if (request !== undefined) {
  const color = process.stdout.isTTY === true && !args.includes('--no-color') && !process.env.NO_COLOR;
  const width = Math.min(process.stdout.columns ?? 100, 110);
  process.stdout.write(renderText(table, request, { version: read('../package.json').version, width, color }));
} else {
  const { register } = await import('tsx/esm/api');
  // Our own tsconfig, whatever folder we are called in: decorators and the path `alambic/plugin` come from it. Of an installed package
  // only plugins are TypeScript, and src/plugin-host/plugin-modules.mjs compiles them.
  register({ tsconfig: isRepository && fileURLToPath(new URL('../tsconfig.json', import.meta.url)) });
  const { main } = await import(`${folder}/cli/main.${isRepository ? 'ts' : 'js'}`);
  process.exitCode = await main(args);
}
