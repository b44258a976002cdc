import { appendFileSync, existsSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Listener, RunEvent } from '../plugin-host/contract.ts';
import { definePlugin } from '../plugin-host/define.ts';
import { TOKEN } from '../plugin-host/tokens.ts';

const Options = z.strictObject({
  file: z.string().min(1).default('metrics.csv').meta({ description: 'file name, relative to the run folder' }),
  steps: z.boolean().default(false).meta({ description: 'also losses and rate of the steps that are logged' }),
});

const HEADER = 'stage,epoch,update,name,value\n';

/** Writes numbers in long form, one value a row, which every table program and data frame can pivot. */
@injectable()
export class CsvLogger implements Listener {
  readonly #options: z.output<typeof Options>;
  #path: string | undefined;
  #update = 0;

  constructor(@inject(TOKEN.Options) options: z.output<typeof Options>) {
    this.#options = options;
  }

  on(event: RunEvent): void {
    if (event.type === 'run-start') {
      this.#path = join(resolve(event.folder), this.#options.file);
      if (!existsSync(this.#path) || statSync(this.#path).size === 0) appendFileSync(this.#path, HEADER);
    }
    if (event.type === 'stage-start') this.#update = 0;
    if (event.type === 'step') {
      this.#update = event.update;
      if (this.#options.steps) this.#write(event.stage, event.epoch, { ...event.losses, rate: event.rate }, 'step/');
    }
    if (event.type === 'epoch-end')
      this.#write(event.stage, event.epoch, { ...event.metrics, seconds: event.seconds }, '');
    if (event.type === 'stage-end') this.#write(event.stage, '', event.metrics, 'end/');
  }

  #write(stage: string, epoch: number | '', values: Readonly<Record<string, number>>, prefix: string): void {
    if (this.#path === undefined) return;
    const rows = Object.entries(values).map(([name, value]) =>
      [quote(stage), epoch, this.#update, quote(prefix + name), value].join(','),
    );
    if (rows.length > 0) appendFileSync(this.#path, `${rows.join('\n')}\n`);
  }
}

/** RFC 4180. */
function quote(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export default definePlugin({
  name: 'csv',
  kind: 'logger',
  apiVersion: 1,
  description: 'numbers of each epoch as a table in long form: stage, epoch, update, name, value',
  options: Options,
  implementation: CsvLogger,
});
