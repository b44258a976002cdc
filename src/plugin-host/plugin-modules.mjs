/**
 * Hooks for Node's module loader, for the files of plugins only. Plain JavaScript, since they run before any TypeScript can.
 *
 * What they are for: tsx compiles a file by the tsconfig.json of the working folder, and only files that it includes. A plugin beside a
 * recipe is usually in none, so parameter decorators (`@inject`) would be syntax errors, and without a package.json of type `module` it
 * would be loaded as CommonJS, with a second copy of alambic. So plugins are compiled here: always as ES modules with decorators.
 *
 * A plugin's files are marked by the query `?alambic-plugin`, which relative imports inherit.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const MARK = 'alambic-plugin';
const TYPESCRIPT = /\.(ts|mts|tsx)$/;
// In an installed package this file lies beside JavaScript.
const ENDING = existsSync(new URL('../index.ts', import.meta.url)) ? 'ts' : 'js';
const OWN = {
  alambic: new URL(`../index.${ENDING}`, import.meta.url).href,
  'alambic/plugin': new URL(`../plugin.${ENDING}`, import.meta.url).href,
};

// esbuild is what tsx compiles with: taken from where tsx has it.
const fromTsx = createRequire(createRequire(import.meta.url).resolve('tsx'));
let esbuild;

const isMarked = (url) => url?.startsWith('file:') && new URL(url).searchParams.has(MARK);

function mark(url) {
  const marked = new URL(url);
  marked.searchParams.set(MARK, '');
  return marked.href.replace(`${MARK}=`, MARK);
}

/**
 * What is resolved here: alambic itself, of which there must be one copy only, also for a plugin outside of every package; and the
 * TypeScript files of plugins, which other hooks might take for CommonJS.
 */
function ownResolution(specifier, { parentURL }) {
  if (Object.hasOwn(OWN, specifier)) return { url: OWN[specifier], format: 'module', shortCircuit: true };
  const isEntry = specifier.startsWith('file:') && isMarked(specifier);
  const isInside = isMarked(parentURL) && /^\.{1,2}\//.test(specifier);
  if (!isEntry && !isInside) return undefined;
  const url = new URL(specifier, parentURL);
  if (!TYPESCRIPT.test(url.pathname) || !existsSync(url)) return undefined;
  return { url: mark(url.href), format: 'module', shortCircuit: true };
}

function compile(url) {
  const path = fileURLToPath(url);
  esbuild ??= fromTsx('esbuild');
  const { code } = esbuild.transformSync(readFileSync(path, 'utf8'), {
    loader: path.endsWith('.tsx') ? 'tsx' : 'ts',
    format: 'esm',
    target: 'es2022',
    sourcefile: path,
    sourcemap: 'inline',
    tsconfigRaw: { compilerOptions: { experimentalDecorators: true, useDefineForClassFields: true } },
  });
  return { format: 'module', source: code, shortCircuit: true };
}

const isOurs = (url) => isMarked(url) && TYPESCRIPT.test(new URL(url).pathname);

/** For `module.register`: in the loader's thread. */
export async function resolve(specifier, context, nextResolve) {
  return ownResolution(specifier, context) ?? nextResolve(specifier, context);
}

export async function load(url, context, nextLoad) {
  return isOurs(url) ? compile(url) : nextLoad(url, context);
}

/** For `module.registerHooks`, where Node has it: in the main thread. */
export const synchronous = {
  resolve: (specifier, context, nextResolve) => ownResolution(specifier, context) ?? nextResolve(specifier, context),
  load: (url, context, nextLoad) => (isOurs(url) ? compile(url) : nextLoad(url, context)),
};
