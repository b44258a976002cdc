/**
 * Hooks for Node's module loader, for the files of plugins only. Plain JavaScript, since they run before any TypeScript can.
 *
 * What they are for: tsx compiles a file by the tsconfig.json of the working folder, and only files that it includes. A plugin beside a
 * recipe is usually in none, so parameter decorators (`@inject`) would be syntax errors, and without a package.json of type `module` it
 * would be loaded as CommonJS, with a second copy of alambic. So plugins are compiled here: always as ES modules with decorators.
 *
 * A plugin's files are marked by the query `?alambic-plugin`, which relative imports inherit.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const MARK = 'alambic-plugin';
const TYPESCRIPT = /\.(ts|mts|tsx)$/;
const OWN = {
  alambic: new URL('../index.ts', import.meta.url).href,
  'alambic/plugin': new URL('../plugin.ts', import.meta.url).href,
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

/** One copy of alambic only: the running one, also for a plugin that lies outside of every package. */
function ownResolution(specifier) {
  const url = OWN[specifier];
  return url === undefined ? undefined : { url, format: 'module', shortCircuit: true };
}

function finishResolution(result, specifier, context) {
  const isEntry = specifier.startsWith('file:') && isMarked(specifier);
  const isInside = isMarked(context.parentURL) && /^\.{1,2}\//.test(specifier);
  if (!isEntry && !isInside) return result;
  const url = mark(result.url);
  return TYPESCRIPT.test(new URL(url).pathname) ? { ...result, url, format: 'module' } : { ...result, url };
}

function compile(url) {
  const path = fileURLToPath(new URL(url));
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
  return ownResolution(specifier) ?? finishResolution(await nextResolve(specifier, context), specifier, context);
}

export async function load(url, context, nextLoad) {
  return isOurs(url) ? compile(url) : nextLoad(url, context);
}

/** For `module.registerHooks`, where Node has it: in the main thread. */
export const synchronous = {
  resolve: (specifier, context, nextResolve) =>
    ownResolution(specifier) ?? finishResolution(nextResolve(specifier, context), specifier, context),
  load: (url, context, nextLoad) => (isOurs(url) ? compile(url) : nextLoad(url, context)),
};
