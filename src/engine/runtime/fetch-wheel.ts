import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { AlambicError } from '../../errors.ts';
import type { RuntimeContext } from './context.ts';
import { badHash, describeFailure, download, hashFile, offline, type Progress } from './download.ts';
import type { Wheel, WheelFile } from './manifest.ts';
import { findLinks, findLocalWheel, findOffer, indexUrls, type Offer } from './package-index.ts';
import { pythons } from './python.ts';
import { runCommand } from './run-command.ts';

export interface FetchOptions {
  readonly context: RuntimeContext;
  /** A wheel, or a folder with wheels, to take instead of downloading. */
  readonly from?: string | undefined;
  readonly offline: boolean;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  readonly say: (line: string) => void;
}

/** A pinned wheel on this disk, its hash checked. */
export interface FetchedWheel {
  readonly path: string;
  readonly file: WheelFile;
}

/**
 * Brings a pinned wheel into `folder` and says where it lies: from a file at hand (`from`, PIP_FIND_LINKS, an earlier download), from
 * the package index, or, where that refuses us, by pip, which may know credentials and proxies that we do not. Its hash is checked.
 *
 * @throws AlambicError RUNTIME_OFFLINE, RUNTIME_NO_INDEX, RUNTIME_DOWNLOAD, RUNTIME_BAD_HASH, RUNTIME_NO_SPACE.
 */
export async function fetchWheel(wheel: Wheel, folder: string, options: FetchOptions): Promise<FetchedWheel> {
  const { context, say } = options;
  await mkdir(folder, { recursive: true });
  const local = localWheel(wheel, options);
  if (local !== undefined) {
    say(`${local.file.file}: taken from ${local.path}`);
    await checkHash(local.path, local.file);
    return local;
  }
  for (const file of wheel.files) {
    const path = join(folder, file.file);
    if (!existsSync(path)) continue;
    if ((await hashFile(path)) === file.sha256) return { path, file };
    await rm(path, { force: true });
  }
  if (options.offline) {
    throw new AlambicError(
      'RUNTIME_OFFLINE',
      `expected ${wheel.files[0]!.file} at hand, since nothing may be downloaded`,
      {
        hint: 'Leave --offline (ALAMBIC_OFFLINE) out, or put the wheel into a folder that PIP_FIND_LINKS or --from names.',
      },
    );
  }
  const reasons: string[] = [];
  let cause: unknown;
  for (const index of await indexUrls(context.env)) {
    const offer = await askIndex(index, wheel, options).catch((error: unknown) => {
      cause = error;
      return `${new URL(index).host}: ${describeFailure(error)}`;
    });
    if (typeof offer === 'string') {
      reasons.push(offer);
      continue;
    }
    const path = join(folder, offer.file.file);
    try {
      await download(offer.url, offer.file, path, options);
      return { path, file: offer.file };
    } catch (error) {
      if (!(error instanceof AlambicError) || error.code !== 'RUNTIME_DOWNLOAD') throw error;
      cause = error;
      reasons.push(error.message);
    }
  }
  const byPip = await downloadByPip(wheel, folder, options);
  if (typeof byPip !== 'string') return byPip;
  reasons.push(byPip);
  if (reasons.some((reason) => reason.includes('than the one that is pinned'))) {
    throw badHash(wheel.files[0]!, reasons.join('; '), wheel.project);
  }
  if (cause !== undefined && !(cause instanceof AlambicError)) throw offline(reasons.join('; '), cause);
  if (cause instanceof AlambicError) {
    throw new AlambicError(cause.code, `${cause.message} (${byPip})`, {
      ...(cause.hint !== undefined && { hint: cause.hint }),
      ...(cause.at !== undefined && { at: cause.at }),
      cause,
    });
  }
  throw new AlambicError(
    'RUNTIME_DOWNLOAD',
    `expected ${wheel.project} ${wheel.version} on the package index: ${reasons.join('; ')}`,
    {
      hint: "Set PIP_INDEX_URL to an index that has it, or ALAMBIC_TENSORFLOW_DIR to a folder with TensorFlow's libraries.",
      cause,
    },
  );
}

/** A wheel at hand; `from` comes before the folders that pip is set to. */
export function localWheel(
  wheel: Wheel,
  { from, context }: Pick<FetchOptions, 'from' | 'context'>,
): FetchedWheel | undefined {
  const named = from === undefined ? undefined : wheel.files.find(({ file }) => basename(from) === file);
  if (from !== undefined && named !== undefined) return { path: from, file: named };
  return findLocalWheel(wheel, [...(from === undefined ? [] : [from]), ...findLinks(context.env)]);
}

async function checkHash(path: string, file: WheelFile): Promise<void> {
  const sha256 = await hashFile(path);
  if (sha256 !== file.sha256) throw badHash(file, `the file's sha256 is ${sha256}`, path);
}

/** Several attempts, since one lost connection should not end an installation. */
async function askIndex(index: string, wheel: Wheel, { context }: FetchOptions): Promise<Offer | string> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await findOffer(index, wheel, context.env);
    } catch (error) {
      if (attempt === 2) throw error;
      await new Promise((resolve) => setTimeout(resolve, context.retryDelay * 2 ** attempt));
    }
  }
}

/** `pip download` of exactly the pinned file, or why that failed. */
async function downloadByPip(
  wheel: Wheel,
  folder: string,
  { context, say }: FetchOptions,
): Promise<FetchedWheel | string> {
  const [file] = wheel.files;
  const [, , python = '', abi = '', ...platforms] = file!.file.replace(/\.whl$/, '').split('-');
  const aside = await mkdtemp(join(folder, 'pip-'));
  try {
    let reason = 'no pip is in reach either';
    for (const command of pythons(context.env)) {
      const pip = [command, '-m', 'pip'] as const;
      if (!(await runCommand(pip[0], [...pip.slice(1), '--version'], { env: { ...context.env } })).ok) continue;
      say(`${file!.file}: asking pip for it`);
      const args = [
        'download',
        '--quiet',
        '--no-deps',
        '--disable-pip-version-check',
        '--only-binary',
        ':all:',
        '--dest',
        aside,
      ];
      const target = [
        ...[
          '--python-version',
          python.replace(/^(cp|py)/, ''),
          '--implementation',
          python.startsWith('cp') ? 'cp' : 'py',
          '--abi',
          abi,
        ],
        ...platforms
          .join('-')
          .split('.')
          .flatMap((platform) => ['--platform', platform]),
      ];
      const result = await runCommand(
        pip[0],
        [...pip.slice(1), ...args, ...target, `${wheel.project}==${wheel.version}`],
        {
          env: { ...context.env },
          seconds: 3600,
        },
      );
      const path = join(aside, file!.file);
      if (result.ok && (await isFile(path))) {
        await checkHash(path, file!);
        await rename(path, join(folder, file!.file));
        return { path: join(folder, file!.file), file: file! };
      }
      reason = `pip: ${
        result.stderr
          .trim()
          .split('\n')
          .filter((line) => line.startsWith('ERROR'))
          .at(-1) ?? 'it brought another file'
      }`;
      break;
    }
    return reason;
  } finally {
    await rm(aside, { recursive: true, force: true });
  }
}

async function isFile(path: string): Promise<boolean> {
  return stat(path)
    .then((found) => found.isFile())
    .catch(() => false);
}
