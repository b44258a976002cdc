import { createRequire } from 'node:module';
import type { DataId, Tensor, TensorInfo } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { AlambicError } from '../../errors.ts';
import type { Attr } from '../program/program.ts';
import type { TensorflowBinding, TensorMetadata } from './binding.ts';
import { completeGradients } from './gradient-replacements.ts';
import { refuseRandomOps, replaceKernels } from './kernel-replacements.ts';

/** The part of tfjs-node's backend class that the engine calls; several members are private in its own typing. */
export interface NodeBackend {
  readonly binding: TensorflowBinding;
  createOutputTensor(metadata: TensorMetadata): Tensor;
  getInputTensorIds(tensors: readonly TensorInfo[]): number[];
  executeSingleOutput(name: string, attrs: readonly Attr[], inputs: readonly TensorInfo[]): Tensor;
  executeMultipleOutputs(
    name: string,
    attrs: readonly Attr[],
    inputs: readonly TensorInfo[],
    outputs: number,
  ): Tensor[];
  readonly tensorMap: { get(id: DataId): { dtype: number; id: number } };
}

const require = createRequire(import.meta.url);

/** tfjs-node's kernels call two old functions of `util`, of which Node 23 removed one (tfjs#8609). */
function restoreRemovedUtil(): void {
  const util = require('node:util') as Record<string, unknown>;
  util['isNullOrUndefined'] ??= (x: unknown) => x === null || x === undefined;
  // Where it is left, it prints a deprecation warning (DEP0044).
  util['isArray'] = Array.isArray;
}

/**
 * Loads a file of tfjs-node-gpu's JavaScript. In the repository it is a development dependency; the published package carries the
 * files it needs in `vendor/` (made by pack/build.mjs), because that package's install script cannot run on users' machines. `vendor/`
 * comes first: another version may be installed beside us.
 */
function requireKernels(file: string): Record<string, unknown> {
  for (const base of ['../../../vendor/tfjs-node-gpu/dist/', '@tensorflow/tfjs-node-gpu/dist/']) {
    try {
      return require(base + file) as Record<string, unknown>;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw error;
    }
  }
  throw new AlambicError('ENGINE_KERNELS', 'the kernels of @tensorflow/tfjs-node-gpu were not found', {
    hint: 'Run `npm ci` in the repository; in an installed package, install it again.',
  });
}

/** Registers tfjs-node's kernels and a backend named `tensorflow` that runs on the binding, and makes it tfjs's backend. */
export async function registerBackend(binding: TensorflowBinding): Promise<NodeBackend> {
  restoreRemovedUtil();
  tf.env().set('PROD', true); // keeps tfjs from printing its advice to install tfjs-node
  await import('@tensorflow/tfjs'); // registers the gradients of tfjs-core's ops, which core alone does not have
  completeGradients();
  const { NodeJSKernelBackend } = requireKernels('nodejs_kernel_backend.js') as {
    NodeJSKernelBackend: new (binding: TensorflowBinding, name: string) => NodeBackend;
  };
  requireKernels('register_all_kernels.js');
  replaceKernels();
  refuseRandomOps(binding);
  tf.registerBackend('tensorflow', () => new NodeJSKernelBackend(binding, '@tensorflow/tfjs-node-gpu') as never, 3);
  await tf.setBackend('tensorflow');
  await tf.ready();
  return tf.backend() as unknown as NodeBackend;
}
