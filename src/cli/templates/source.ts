import { definePlugin, inject, injectable, memorySource, type Source, TOKEN, z } from 'alambic/plugin';

const Options = z.strictObject({
  items: z.int().positive().default(512).describe('number of images'),
  size: z.int().min(4).default(16).describe('height and width in pixels'),
});

/** Stripes, level or upright, of every width: uint8 [size,size,1], two classes. Put your own reading here. */
@injectable()
export class MySource {
  constructor(@inject(TOKEN.Options) private readonly options: z.output<typeof Options>) {}

  async open(): Promise<Source> {
    const { items, size } = this.options;
    const labels = Array.from({ length: items }, (_, i) => i % 2);
    const images = Uint8Array.from({ length: items * size * size }, (_, at) => {
      const item = Math.floor(at / (size * size));
      const along = item % 2 === 0 ? Math.floor(at / size) % size : at % size;
      const period = 2 + (Math.floor(item / 2) % 5);
      return Math.floor((along + item) / period) % 2 === 0 ? 230 : 25;
    });
    return memorySource({ name: 'my-source', images, height: size, width: size, labels, names: ['level', 'upright'] });
  }
}

export default definePlugin({
  name: 'my-source',
  kind: 'source',
  apiVersion: 1,
  description: 'Level and upright stripes.',
  options: Options,
  implementation: MySource,
});
