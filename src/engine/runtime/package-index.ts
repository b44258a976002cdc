import { statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { AlambicError } from '../../errors.ts';
import { isOn, type RuntimeContext } from './context.ts';
import { get, withoutCredentials } from './https-get.ts';
import type { Wheel, WheelFile } from './manifest.ts';
import { pipIndexUrl } from './python.ts';

/** A pinned file and where the index has it. */
export interface Offer {
  readonly url: string;
  readonly file: WheelFile;
}

/** One file of a project as an index lists it. */
interface Listed {
  readonly name: string;
  readonly url: string;
  readonly sha256: string | undefined;
}

const ACCEPT = 'application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1';

/**
 * The package indexes to ask, as pip and uv are set: PIP_INDEX_URL, UV_DEFAULT_INDEX or UV_INDEX_URL, else what pip says of itself;
 * then PIP_EXTRA_INDEX_URL. Whatever an index answers, only files of the pinned hash are used.
 *
 * @throws AlambicError RUNTIME_NO_INDEX where none is known.
 */
export async function indexUrls(env: RuntimeContext['env']): Promise<string[]> {
  if (isOn(env, 'PIP_NO_INDEX')) {
    throw new AlambicError('RUNTIME_NO_INDEX', 'expected a package index, PIP_NO_INDEX forbids one', {
      hint: `Unset it, put the wheel into a folder of PIP_FIND_LINKS, or set ALAMBIC_TENSORFLOW_DIR to a folder with the libraries.`,
    });
  }
  const set = env['PIP_INDEX_URL'] || env['UV_DEFAULT_INDEX'] || env['UV_INDEX_URL'];
  // uv allows `name=url`.
  const first = set ? set.replace(/^[\w.-]+=(?=https?:)/, '') : await pipIndexUrl(env);
  const more = (env['PIP_EXTRA_INDEX_URL'] ?? '').split(/\s+/).filter((url) => url !== '');
  const urls = [...(first === undefined ? [] : [first]), ...more];
  if (urls.length === 0) {
    throw new AlambicError(
      'RUNTIME_NO_INDEX',
      'expected a package index to get TensorFlow from, found neither a setting nor pip',
      {
        hint:
          'Set PIP_INDEX_URL to the simple API of a Python package index, or ALAMBIC_TENSORFLOW_DIR to a folder with the libraries ' +
          "(a Python's `site-packages/tensorflow`). Where Python has pip, its index is used.",
      },
    );
  }
  for (const url of urls) {
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
      throw new AlambicError('RUNTIME_NO_INDEX', `expected the http(s) URL of a package index, got "${url}"`, {
        hint: 'Correct PIP_INDEX_URL (or UV_DEFAULT_INDEX, PIP_EXTRA_INDEX_URL).',
      });
    }
  }
  return urls;
}

/**
 * Asks an index where it has one of a wheel's pinned files, by its simple API (JSON, PEP 691, or HTML, PEP 503).
 *
 * @returns the place, or a sentence that says why there is none
 */
export async function findOffer(index: string, wheel: Wheel, env: RuntimeContext['env']): Promise<Offer | string> {
  const shown = withoutCredentials(index);
  const page = `${index.replace(/\/+$/, '')}/${wheel.project}/`;
  const answer = await get(page, { env, headers: { accept: ACCEPT } });
  if (answer.status !== 200) {
    answer.body.resume();
    const needs = answer.status === 401 || answer.status === 403 ? ' (credentials?)' : '';
    return `${shown} answered ${answer.status}${needs} for ${wheel.project}`;
  }
  let text = '';
  for await (const chunk of answer.body.setEncoding('utf8')) text += chunk as string;
  const isJson = (answer.headers['content-type'] ?? '').includes('json');
  const listed = isJson ? readJson(text, answer.url) : readHtml(text, answer.url);
  if (listed === undefined) return `${shown} gave no list of files for ${wheel.project}`;
  for (const file of wheel.files) {
    const entry = listed.find(({ name }) => name === file.file);
    if (entry === undefined) continue;
    if (entry.sha256 !== undefined && entry.sha256 !== file.sha256) {
      return `${shown} has another ${file.file} than the one that is pinned (sha256 ${entry.sha256})`;
    }
    return { url: withIndexCredentials(entry.url, index), file };
  }
  return `${shown} does not have ${wheel.files[0]!.file}`;
}

/** Folders with wheels that pip and uv are set to (PIP_FIND_LINKS, UV_FIND_LINKS). */
export function findLinks(env: RuntimeContext['env']): string[] {
  return `${env['PIP_FIND_LINKS'] ?? ''} ${env['UV_FIND_LINKS'] ?? ''}`
    .split(/[\s,]+/)
    .filter((place) => place !== '' && !/^https?:/.test(place))
    .map((place) => (place.startsWith('file:') ? fileURLToPath(place) : place));
}

/** One of a wheel's pinned files in the folders, by name and size; its hash is checked by whoever uses it. */
export function findLocalWheel(
  wheel: Wheel,
  folders: readonly string[],
): { path: string; file: WheelFile } | undefined {
  for (const folder of folders) {
    for (const file of wheel.files) {
      const path = join(folder, file.file);
      if (statSync(path, { throwIfNoEntry: false })?.size === file.bytes) return { path, file };
    }
  }
  return undefined;
}

function readJson(text: string, base: string): Listed[] | undefined {
  let page: unknown;
  try {
    page = JSON.parse(text);
  } catch {
    // A login page or a cut answer: reported as "no list of files".
    return undefined;
  }
  const files = (page as { files?: unknown } | null)?.files;
  if (!Array.isArray(files)) return undefined;
  return files.flatMap((entry: { filename?: unknown; url?: unknown; hashes?: { sha256?: unknown } }) => {
    if (typeof entry.filename !== 'string' || typeof entry.url !== 'string') return [];
    const sha256 = entry.hashes?.sha256;
    return [
      {
        name: entry.filename,
        url: new URL(entry.url, base).href,
        sha256: typeof sha256 === 'string' ? sha256 : undefined,
      },
    ];
  });
}

function readHtml(text: string, base: string): Listed[] | undefined {
  const listed: Listed[] = [];
  for (const [, attribute, label] of text.matchAll(/<a\s[^>]*?href\s*=\s*["']([^"']+)["'][^>]*>([^<]*)<\/a>/gi)) {
    const url = new URL(attribute!.replaceAll('&amp;', '&'), base);
    const sha256 = /sha256=([0-9a-f]{64})/.exec(url.hash)?.[1];
    url.hash = '';
    listed.push({ name: label!.trim(), url: url.href, sha256 });
  }
  return listed.length === 0 ? undefined : listed;
}

/** An index that asks for a password asks for it at its files too. */
function withIndexCredentials(file: string, index: string): string {
  const url = new URL(file);
  const { host, username, password } = new URL(index);
  if (url.host === host && url.username === '') Object.assign(url, { username, password });
  return url.href;
}
