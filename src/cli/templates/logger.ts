import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import { definePlugin, inject, injectable, type Listener, type RunEvent, TOKEN, z } from 'alambic/plugin';

const Options = z.strictObject({
  file: z.string().min(1).default('epochs.txt').describe('file in the run folder'),
});

/** Writes one line for each epoch. */
@injectable()
export class MyLogger implements Listener {
  #path: string | undefined;

  constructor(@inject(TOKEN.Options) private readonly options: z.output<typeof Options>) {}

  async on(event: RunEvent): Promise<void> {
    if (event.type === 'run-start') this.#path = join(event.folder, this.options.file);
    if (event.type !== 'epoch-end' || this.#path === undefined) return;
    const metrics = Object.entries(event.metrics).map(([name, value]) => `${name}=${value.toPrecision(4)}`);
    await appendFile(this.#path, `${event.stage} ${event.epoch} ${metrics.join(' ')}\n`);
  }
}

export default definePlugin({
  name: 'my-logger',
  kind: 'logger',
  apiVersion: 1,
  description: 'One line of text for each epoch.',
  options: Options,
  implementation: MyLogger,
});
