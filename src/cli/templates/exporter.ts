import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { definePlugin, type Exporter, inject, injectable, TOKEN, z } from 'alambic/plugin';

const Options = z.strictObject({
  name: z.string().min(1).default('model').describe('name of the files without their endings'),
});

/** Writes the values as little-endian float32, one after the other, with a JSON file that says what lies where. */
@injectable()
export class MyExporter implements Exporter {
  constructor(@inject(TOKEN.Options) private readonly options: z.output<typeof Options>) {}

  async export({ description, state, labels }: Parameters<Exporter['export']>[0], folder: string): Promise<void> {
    const tensors: { name: string; shape: number[]; offset: number }[] = [];
    const chunks: Uint8Array[] = [];
    let offset = 0;
    for (const [name, tensor] of Object.entries({ ...state.params, ...state.buffers })) {
      const bytes = new Uint8Array(Float32Array.from(await tensor.data()).buffer);
      tensors.push({ name, shape: tensor.shape, offset });
      chunks.push(bytes);
      offset += bytes.length;
    }
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, `${this.options.name}.bin`), Buffer.concat(chunks));
    const about = { architecture: description.architecture, inputShape: description.inputShape, labels, tensors };
    await writeFile(join(folder, `${this.options.name}.json`), `${JSON.stringify(about, null, 2)}\n`);
  }
}

export default definePlugin({
  name: 'my-exporter',
  kind: 'exporter',
  apiVersion: 1,
  description: 'Raw float32 values with a JSON index.',
  options: Options,
  implementation: MyExporter,
});
