import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { tensorData } from '../../src/formats/tensor-data.ts';
import { CheckpointKeeper } from '../../src/train/checkpoint-keeper.ts';
import { findLatestCheckpoint } from '../../src/train/checkpoint-search.ts';

/** Child process of the kill test: saves checkpoints of known content for ever; says over IPC when each one is done. */
const [runFolder, names] = process.argv.slice(2) as [string, string];

export function contentOf(n: number) {
  const weights = Float32Array.from({ length: 50_000 }, (_, i) => n + i);
  return {
    manifest: { n },
    tensors: {
      'model.safetensors': { weights: tensorData(weights) },
      'optimizer.safetensors': { steps: tensorData(Int32Array.of(n)) },
    },
    texts: { 'recipe.yaml': `n: ${n}\n` },
  };
}

async function writeForEver(): Promise<void> {
  const latest = await findLatestCheckpoint(runFolder);
  const keeper = new CheckpointKeeper(join(runFolder, 'checkpoints'), { last: 3 }, { state: latest?.keeper });
  await new Promise((go) => process.once('message', go));
  for (let n = Number(latest?.manifest['n'] ?? 0) + 1; ; n++) {
    await keeper.save(`e${n % Number(names)}`, contentOf(n), { stage: 'student' });
    process.send?.(n);
  }
}

// The test imports `contentOf` too; only the child process is started with this file as its script.
if (process.argv[1] === fileURLToPath(import.meta.url)) await writeForEver();
