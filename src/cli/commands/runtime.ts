import { openEngine } from '../../engine/engine.ts';
import {
  describeRuntime,
  findRuntime,
  formatBytes,
  installRuntime,
  type Progress,
  type RuntimeDescription,
  removeRuntime,
} from '../../engine/runtime/index.ts';

export interface RuntimeCommandOptions {
  /** The build with CUDA. */
  readonly gpu?: boolean | undefined;
  /** Wheel, folder of wheels, Python environment or folder of libraries to take it from. */
  readonly from?: string | undefined;
  readonly offline?: boolean | undefined;
  /** Install although a usable runtime is found elsewhere (a Python's, say). */
  readonly yes?: boolean | undefined;
  /** One JSON object instead of lines. */
  readonly json?: boolean | undefined;
}

export interface RuntimeCommandOutput {
  /** Writes a line. */
  write(line: string): void;
  /** Whether a bar may be redrawn; else a line is written for every 10 %. */
  readonly isTerminal: boolean;
  /** Where the bar is drawn. @default process.stderr */
  readonly terminal?: (NodeJS.WritableStream & { columns?: number }) | undefined;
}

/**
 * `alambic runtime install | info | remove`.
 *
 * @throws AlambicError as the functions of `src/engine/runtime/` do.
 */
export async function runRuntimeCommand(
  action: 'install' | 'info' | 'remove',
  options: RuntimeCommandOptions,
  output: RuntimeCommandOutput,
): Promise<void> {
  const { json = false } = options;
  const say = json ? () => undefined : (line: string) => output.write(line);
  if (action === 'install') await install(options, output, say);
  else if (action === 'info') await info(options, output);
  else {
    const { folders, bytes } = await removeRuntime({ say });
    if (json) output.write(JSON.stringify({ removed: folders, bytes }));
    else if (folders.length === 0) say('nothing is installed in the cache');
    else for (const folder of folders) say(`removed ${folder}`);
    if (bytes > 0) say(`${formatBytes(bytes)} are free again`);
  }
}

async function install(
  { gpu, from, offline, yes, json }: RuntimeCommandOptions,
  output: RuntimeCommandOutput,
  say: (line: string) => void,
): Promise<void> {
  if (from === undefined && yes !== true) {
    const { found } = await findRuntime({ gpu: gpu ?? false });
    if (found !== undefined) {
      if (json === true) output.write(JSON.stringify(found));
      else
        say(
          `TensorFlow ${found.version ?? ''} is there already: ${found.folder} (${originText(found.origin)})`.replace(
            '  ',
            ' ',
          ),
        );
      return;
    }
  }
  const bar = output.isTerminal && json !== true ? new ProgressBar(output.terminal ?? process.stderr) : undefined;
  try {
    const location = await installRuntime({
      gpu,
      from,
      offline,
      say: (line) => {
        bar?.clear();
        say(line);
      },
      ...(bar !== undefined && { onProgress: (progress: Progress) => bar.draw(progress) }),
    });
    if (json === true) output.write(JSON.stringify(location));
  } finally {
    bar?.clear();
  }
}

async function info({ gpu, json }: RuntimeCommandOptions, output: RuntimeCommandOutput): Promise<void> {
  const description = await describeRuntime({ gpu: gpu ?? false });
  const loaded = description.folder === undefined ? undefined : await load();
  if (json === true) {
    output.write(JSON.stringify({ ...description, ...loaded }));
    return;
  }
  for (const [name, value] of infoRows(description, loaded)) output.write(`${`${name}:`.padEnd(11)}${value}`);
}

/** What only the library itself tells; an error is part of the answer here. */
interface Loaded {
  readonly version?: string;
  readonly devices?: readonly string[];
  readonly error?: string;
}

async function load(): Promise<Loaded> {
  try {
    const { version, devices } = await openEngine();
    return { version, devices: devices.map(({ name }) => name) };
  } catch (error) {
    return { error: (error as Error).message };
  }
}

function infoRows(description: RuntimeDescription, loaded: Loaded | undefined): [string, string][] {
  const { folder, origin, version, kind, bytes, oneDnn, cacheFolder, installs, refused } = description;
  const rows: [string, string][] = [];
  if (folder === undefined || origin === undefined) {
    rows.push(['libraries', `none; \`alambic runtime install\` brings TensorFlow ${installs}`]);
  } else {
    rows.push(
      ['libraries', folder],
      ['origin', originText(origin)],
      ['version', loaded?.version ?? version ?? 'unknown'],
    );
    rows.push(
      ['kind', kind === 'gpu' ? 'CUDA' : 'CPU'],
      ['size', formatBytes(bytes)],
      ['oneDNN', oneDnn ? 'on' : 'off'],
    );
    if (loaded?.devices !== undefined) rows.push(['devices', loaded.devices.join(', ')]);
    if (loaded?.error !== undefined) rows.push(['not usable', loaded.error]);
  }
  rows.push(['cache', cacheFolder]);
  for (const { place, reason } of refused) rows.push(['not used', `${place}: ${reason}`]);
  return rows;
}

function originText(origin: 'environment' | 'cache' | 'python'): string {
  return { environment: 'ALAMBIC_TENSORFLOW_DIR', cache: 'installed by alambic', python: "a Python's TensorFlow" }[
    origin
  ];
}

/** One line that is drawn over itself. */
class ProgressBar {
  readonly #stream: NodeJS.WritableStream & { columns?: number };
  #drawn = 0;
  #shown = false;
  #speed: { at: number; received: number } | undefined;
  #rate = 0;

  constructor(stream: NodeJS.WritableStream & { columns?: number }) {
    this.#stream = stream;
  }

  draw({ file, received, total }: Progress): void {
    const now = Date.now();
    if (now - this.#drawn < 100 && received < total) return;
    this.#drawn = now;
    this.#measure(now, received);
    const width = Math.max(10, Math.min(30, (this.#stream.columns ?? 80) - 50));
    const filled = Math.round((received / total) * width);
    const left = this.#rate > 0 ? `, ${Math.ceil((total - received) / this.#rate)} s left` : '';
    const name = file.split('-')[0]!.replaceAll('_', '-');
    const text = `${name} ${'█'.repeat(filled)}${'░'.repeat(width - filled)} ${formatBytes(received)} of ${formatBytes(total)}${left}`;
    this.#shown = true;
    this.#stream.write(`\r\x1b[2K${text.slice(0, (this.#stream.columns ?? 80) - 1)}`);
  }

  clear(): void {
    if (this.#shown) this.#stream.write('\r\x1b[2K');
    this.#shown = false;
  }

  /** Bytes a second, smoothed; another file starts anew. */
  #measure(now: number, received: number): void {
    const before = this.#speed;
    this.#speed = { at: now, received };
    if (before === undefined || received < before.received || now === before.at) return;
    const rate = ((received - before.received) / (now - before.at)) * 1000;
    this.#rate = this.#rate === 0 ? rate : 0.8 * this.#rate + 0.2 * rate;
  }
}
