import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import module from 'node:module';
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { AlambicError, nearestName } from '../errors.ts';
import { checkPlugin } from './check-plugin.ts';
import type { RegisteredPlugin } from './host.ts';

const ENTRIES = ['index.ts', 'index.mts', 'index.js', 'index.mjs'];
const CONDITIONS = ['import', 'node', 'module', 'default'];

/**
 * Loads the plugins of a file, a folder or a package: its default export, one plugin or an array of them. TypeScript needs no build step.
 *
 * - `./my-loss.ts`, `../losses/`, `/abs/file.js`: a path, relative to `baseFolder`; a folder by its package.json, else its index.ts
 * - `some-package`, `@scope/package/part`: a package that is installed for `baseFolder`; node_modules is never searched through
 *
 * Throws `PLUGIN_NOT_FOUND`, `PLUGIN_IMPORT` (it cannot be compiled or run), `PLUGIN_NOT_DEFAULT`, and those of `checkPlugin`.
 *
 * @example
 * for (const { plugin, origin } of await loadPlugin('./my-loss.ts', '/recipes')) host.register(plugin, origin);
 */
export async function loadPlugin(spec: string, baseFolder: string): Promise<RegisteredPlugin[]> {
  const file = isPath(spec) ? findFile(spec, baseFolder) : findPackage(spec, baseFolder);
  const exports = await importFile(file, spec);
  if (!('default' in exports)) {
    const names = Object.keys(exports);
    throw new AlambicError(
      'PLUGIN_NOT_DEFAULT',
      `expected a default export in ${spec}, found ${names.length === 0 ? 'no export' : `only ${names.join(', ')}`}`,
      { hint: 'Write `export default definePlugin({ … })`, or an array of them.', at: file },
    );
  }
  // A CommonJS module, or one compiled to it, wraps the default export once more.
  const wrapped = exports['default'] as { __esModule?: boolean; default?: unknown } | null;
  const value: unknown = wrapped?.__esModule === true ? wrapped.default : wrapped;
  const list = Array.isArray(value) ? (value as unknown[]) : [value];
  return list.map((item) => ({ plugin: checkPlugin(item, file), origin: file }));
}

/** Whether a name of a plugin in a recipe is a path rather than a package. */
export function isPath(spec: string): boolean {
  return /^\.{0,2}\//.test(spec) || /^\.{1,2}$/.test(spec) || spec.startsWith('file:') || isAbsolute(spec);
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

function findFile(spec: string, baseFolder: string): string {
  const path = spec.startsWith('file:') ? fileURLToPath(spec) : resolve(baseFolder, spec);
  if (isFile(path)) return path;
  if (existsSync(path)) return entryOf(path, '.', spec);
  const folder = dirname(path);
  const names = existsSync(folder) && statSync(folder).isDirectory() ? readdirSync(folder) : undefined;
  const near = names === undefined ? undefined : nearestName(basename(path), names);
  const suggestion =
    near === undefined ? '' : `: did you mean "${join(dirname(spec), near).replace(/^(?![./])/, './')}"?`;
  throw new AlambicError('PLUGIN_NOT_FOUND', `no plugin at ${spec}${suggestion}`, {
    hint: `Tried ${path}${names === undefined ? `; the folder ${folder} does not exist` : ''}.`,
  });
}

/** The module of a package folder: as its package.json says, else its index file. */
function entryOf(folder: string, subpath: string, spec: string): string {
  const manifest = join(folder, 'package.json');
  const tried: string[] = [];
  if (isFile(manifest)) {
    const { exports, main } = readManifest(manifest);
    const target =
      exportTarget(exports, subpath) ?? (subpath !== '.' ? subpath : typeof main === 'string' ? main : undefined);
    if (target !== undefined) {
      const file = join(folder, target);
      if (isFile(file)) return file;
      tried.push(file);
    }
  }
  for (const name of ENTRIES) {
    const file = join(folder, subpath === '.' ? '' : subpath, name);
    if (isFile(file)) return file;
    tried.push(file);
  }
  throw new AlambicError('PLUGIN_NOT_FOUND', `no plugin in the folder ${spec}`, {
    hint: `Tried ${tried.map((file) => relative(folder, file)).join(', ')} in ${folder}.`,
  });
}

function readManifest(file: string): { exports?: unknown; main?: unknown } {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as { exports?: unknown; main?: unknown };
  } catch (error) {
    throw new AlambicError('PLUGIN_IMPORT', `expected JSON in ${file}: ${(error as Error).message}`, {
      at: file,
      cause: error,
    });
  }
}

/** Target of a subpath in the `exports` of a package.json, by Node's rules without patterns. */
function exportTarget(exports: unknown, subpath: string): string | undefined {
  if (typeof exports === 'string') return subpath === '.' ? exports : undefined;
  if (Array.isArray(exports))
    return exports.map((item) => exportTarget(item, subpath)).find((target) => target !== undefined);
  if (typeof exports !== 'object' || exports === null) return undefined;
  const entries = exports as Record<string, unknown>;
  if (Object.keys(entries).some((key) => key.startsWith('.'))) return exportTarget(entries[subpath], '.');
  const condition = Object.keys(entries).find(
    (key) => CONDITIONS.includes(key) && exportTarget(entries[key], subpath) !== undefined,
  );
  return condition === undefined ? undefined : exportTarget(entries[condition], subpath);
}

function findPackage(spec: string, baseFolder: string): string {
  const parts = spec.split('/');
  const name = parts.splice(0, spec.startsWith('@') ? 2 : 1).join('/');
  const subpath = parts.length === 0 ? '.' : `./${parts.join('/')}`;
  const tried: string[] = [];
  for (let folder = resolve(baseFolder); ; folder = dirname(folder)) {
    const candidate = join(folder, 'node_modules', name);
    if (existsSync(candidate)) return entryOf(candidate, subpath, spec);
    tried.push(join(folder, 'node_modules'));
    if (dirname(folder) === folder) break;
  }
  const asFile = existsSync(resolve(baseFolder, spec));
  throw new AlambicError(
    'PLUGIN_NOT_FOUND',
    `no package "${spec}" is installed${asFile ? `: did you mean "./${spec}"?` : ''}`,
    {
      hint: asFile
        ? 'A path begins with ./'
        : `Run \`npm i ${name}\` in ${baseFolder}. Looked in ${tried.slice(0, 3).join(', ')} and above.`,
    },
  );
}

let hooksRegistered = false;

/** Registers the hooks that compile plugins, once. See `plugin-modules.mjs`. */
async function registerHooks(): Promise<void> {
  if (hooksRegistered) return;
  hooksRegistered = true;
  const hooks = new URL('./plugin-modules.mjs', import.meta.url);
  const synchronous = (module as { registerHooks?: (hooks: object) => unknown }).registerHooks;
  if (synchronous === undefined) module.register(hooks);
  else synchronous(((await import(hooks.href)) as { synchronous: object }).synchronous);
}

async function importFile(file: string, spec: string): Promise<Record<string, unknown>> {
  await registerHooks();
  try {
    return (await import(`${pathToFileURL(file).href}?alambic-plugin`)) as Record<string, unknown>;
  } catch (error) {
    throw importError(error, file, spec);
  }
}

/** An error while a plugin was compiled or run, with the place in its own files where there is one. */
function importError(error: unknown, file: string, spec: string): AlambicError {
  if (error instanceof AlambicError) return error.with({ at: file, plugin: spec });
  const { message, stack = '' } = error instanceof Error ? error : new Error(String(error));
  const folder = dirname(file);
  // esbuild and Node write `file:line:column`; a syntax error of JavaScript itself only `file:line` in its stack.
  const places = `${message}\n${stack}`.matchAll(
    /(?:file:\/\/)?(\/[^\s()?]+\.[mc]?[jt]sx?)(?:\?[^\s:]*)?:(\d+)(?::(\d+))?/g,
  );
  const place =
    [...places].find(([, path]) => path === file) ??
    [...`${stack}`.matchAll(/(\/[^\s()?]+\.[mc]?[jt]sx?)(?:\?[^\s:]*)?:(\d+)(?::(\d+))?/g)].find(([, path]) =>
      path!.startsWith(folder),
    );
  const at = place === undefined ? file : `${place[1]}:${place[2]}${place[3] === undefined ? '' : `:${place[3]}`}`;
  const text = /: ERROR: (.*)/.exec(message)?.[1] ?? message.split('\n')[0]!;
  const missing = /Cannot find (?:package|module) '([^']+)'/.exec(message)?.[1];
  return new AlambicError('PLUGIN_IMPORT', `expected the plugin ${spec} to load, it failed: ${text}`, {
    hint:
      missing === undefined
        ? 'Correct it there; a plugin needs no build step.'
        : missing.startsWith('/')
          ? 'Imports of files carry their ending: `./file.ts`.'
          : `Install it beside the plugin: \`npm i ${missing}\`.`,
    at,
    plugin: spec,
    cause: error,
  });
}
