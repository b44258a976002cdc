import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Source } from '../../src/data/source.ts';
import { memorySource } from '../../src/data/sources/memory.ts';
import { definePlugin } from '../../src/plugin-host/define.ts';
import { TOKEN } from '../../src/plugin-host/tokens.ts';
import { stripes } from './stage-setup.ts';

const options = z.strictObject({
  count: z.int().default(160),
  classes: z.int().default(3),
  unlabelled: z.boolean().default(false),
});

type Options = z.output<typeof options>;

/** The stripes of the stage tests as a data set of recipes. */
@injectable()
class Stripes {
  constructor(@inject(TOKEN.Options) private readonly options: Options) {}

  async open(): Promise<Source> {
    const { count, classes, unlabelled } = this.options;
    const { images, labels } = stripes(count, classes);
    const names = Array.from({ length: classes }, (_, i) => `class-${i}`);
    return memorySource({ images, height: 8, width: 8, labels: unlabelled ? labels.map(() => -1) : labels, names });
  }
}

export default definePlugin({ name: 'stripes', kind: 'source', apiVersion: 1, options, implementation: Stripes });
