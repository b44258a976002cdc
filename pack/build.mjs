/**
 * `npm run pack` runs this before it packs: makes what an installed package needs and the repository does not. (A bare `npm pack` would
 * skip it, since .npmrc turns off scripts; bin/alambic.mjs says so where that happened.)
 *
 *   dist/                  the library as JavaScript with type declarations. Node strips no types inside of node_modules, and test runners
 *                          and programs that import `alambic` should need no loader of ours
 *   vendor/tfjs-node-gpu/  the kernels of @tensorflow/tfjs-node-gpu. As a dependency, its install script would fetch an addon and a
 *                          TensorFlow of 2022, or fail
 *
 * Both are git-ignored; `node pack/build.mjs clean` removes them again, since the repository itself runs from `src`.
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const DIST = join(ROOT, 'dist');
const VENDOR = join(ROOT, 'vendor');
const KERNELS = '@tensorflow/tfjs-node-gpu';
/** Files of src that are not TypeScript but are read or imported at run time. */
const CARRIED = /\.(mjs|mts|json)$/;

const require = createRequire(import.meta.url);

/** Compiles src to dist, file by file, with the same folders, so that paths between them stay right. */
function buildLibrary() {
  execFileSync(
    process.execPath,
    [require.resolve('typescript/bin/tsc'), '--project', join(ROOT, 'pack/tsconfig.json')],
    {
      stdio: 'inherit',
    },
  );
  cpSync(join(ROOT, 'src/cli/templates'), join(DIST, 'cli/templates'), { recursive: true });
  for (const name of readdirSync(join(ROOT, 'src'), { recursive: true })) {
    // setup.mjs makes a clone ready; an installed package has no use for it.
    if (!CARRIED.test(name) || name === 'setup.mjs') continue;
    mkdirSync(dirname(join(DIST, name)), { recursive: true });
    copyFileSync(join(ROOT, 'src', name), join(DIST, name));
  }
}

/** Bundles the two files of the kernels that the engine loads (`src/engine/tensorflow/backend.ts`) with all that they require. */
async function bundleKernels() {
  // esbuild comes with tsx.
  const esbuild = createRequire(require.resolve('tsx'))('esbuild');
  const manifest = JSON.parse(readFileSync(packageFile(KERNELS, 'package.json'), 'utf8'));
  const folder = join(VENDOR, 'tfjs-node-gpu');
  const { metafile } = await esbuild.build({
    entryPoints: ['nodejs_kernel_backend', 'register_all_kernels'].map((name) =>
      packageFile(KERNELS, `dist/${name}.js`),
    ),
    outdir: join(folder, 'dist'),
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'cjs',
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: 'none',
    external: ['@tensorflow/tfjs', '@tensorflow/tfjs-core'],
    metafile: true,
    plugins: [
      {
        name: 'one copy of the backend class',
        setup: ({ onResolve }) =>
          onResolve({ filter: /\.\/nodejs_kernel_backend$/ }, () => ({
            path: './nodejs_kernel_backend.js',
            external: true,
          })),
      },
    ],
  });
  const { name, version, license } = manifest;
  // `type` matters: alambic's own package.json would make these files ES modules.
  writeFileSync(
    join(folder, 'package.json'),
    `${JSON.stringify({ name, version, license, private: true, type: 'commonjs' }, null, 2)}\n`,
  );
  copyFileSync(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'));
  writeNotice(folder, manifest, Object.keys(metafile.inputs));
}

function writeNotice(folder, { version }, inputs) {
  const taken = inputs.map((path) => path.replace(/^.*node_modules\//, '')).sort();
  const kernels = taken.filter((path) => path.startsWith(`${KERNELS}/`)).map((path) => path.slice(KERNELS.length + 1));
  const others = taken.filter((path) => !path.startsWith(`${KERNELS}/`));
  if (others.some((path) => !path.startsWith('google-protobuf/'))) {
    throw new Error(
      `expected files of ${KERNELS} and google-protobuf only, got ${others.join(', ')}: name them in NOTICE`,
    );
  }
  const protobuf = JSON.parse(readFileSync(protobufFile('package.json'), 'utf8'));
  const text = `This folder holds files of two other projects, bundled into two and with comments and white space taken out, otherwise unchanged.

${KERNELS} ${version}
Copyright 2018-2024 Google LLC. Licensed under the Apache License, Version 2.0 (LICENSE).
Source: https://github.com/tensorflow/tfjs
Files: ${kernels.join(' ')}
`;
  const rest = `
google-protobuf ${protobuf.version}, which dist/proto/api_pb.js needs
${readFileSync(protobufFile('LICENSE.md'), 'utf8').trim()}
Files: ${others.join(' ')}
`;
  writeFileSync(join(folder, 'NOTICE'), others.length === 0 ? text : text + rest);
}

/** A file of an installed package, whatever its `exports` say. */
function packageFile(name, file, from = require) {
  const folder = from.resolve
    .paths(name)
    .map((path) => join(path, name))
    .find((path) => isPackage(path));
  if (folder === undefined) throw new Error(`expected the package ${name}: run npm ci`);
  return join(folder, file);
}

const protobufFile = (file) =>
  packageFile('google-protobuf', file, createRequire(packageFile(KERNELS, 'package.json')));

function isPackage(folder) {
  try {
    return readFileSync(join(folder, 'package.json')) !== undefined;
  } catch (error) {
    if (error.code === 'ENOENT') return false;
    throw error;
  }
}

for (const folder of [DIST, VENDOR]) rmSync(folder, { recursive: true, force: true });
if (process.argv[2] !== 'clean') {
  buildLibrary();
  await bundleKernels();
}
