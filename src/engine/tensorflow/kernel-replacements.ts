import type { Tensor, TensorInfo } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { AlambicError } from '../../errors.ts';
import { ATTR } from '../program/program.ts';
import type { NodeBackend } from './backend.ts';
import type { TensorflowBinding } from './binding.ts';
import { DTYPE } from './dtypes.ts';
import { captureOrigin, userLine } from './status.ts';

/**
 * tfjs-node's GatherV2 reads the indices back to check them, which waits for the device and cannot be recorded. This one leaves the
 * check to TensorFlow: on the CPU an index out of range is its error, on a GPU the result is zero.
 */
function gatherWithoutReading(
  backend: NodeBackend,
  x: TensorInfo,
  indices: TensorInfo,
  axis: number,
  batchDims: number,
) {
  // Uploads the values if tfjs still holds them, so that the type is the device's.
  backend.getInputTensorIds([x, indices]);
  const place = tf.scalar(axis, 'int32');
  const result = backend.executeSingleOutput(
    'GatherV2',
    [
      { name: 'batch_dims', type: ATTR.int, value: batchDims },
      { name: 'Tparams', type: ATTR.type, value: backend.tensorMap.get(x.dataId).dtype },
      { name: 'Tindices', type: ATTR.type, value: backend.tensorMap.get(indices.dataId).dtype },
      { name: 'Taxis', type: ATTR.type, value: DTYPE.int32 },
    ],
    [x, indices, place],
  );
  place.dispose();
  return result;
}

/** Replaces kernels of tfjs-node that cannot be recorded. */
export function replaceKernels(): void {
  tf.unregisterKernel('GatherV2', 'tensorflow');
  tf.registerKernel({
    kernelName: 'GatherV2',
    backendName: 'tensorflow',
    kernelFunc: ({ inputs, backend, attrs }) => {
      const { axis, batchDims } = attrs as unknown as { axis: number; batchDims: number };
      const { x, indices } = inputs as { x: Tensor; indices: Tensor };
      return gatherWithoutReading(backend as unknown as NodeBackend, x, indices, axis, batchDims);
    },
  });
}

/** tfjs's ops that draw numbers in JavaScript or from a generator that no key steers. */
const RANDOM_OPS: ReadonlySet<string> = new Set([
  'dropout',
  'multinomial',
  'rand',
  'randomGamma',
  'randomNormal',
  'randomStandardNormal',
  'randomUniform',
  'randomUniformInt',
  'truncatedNormal',
]);

/**
 * Refuses tfjs's random ops while a function is being recorded: their numbers would be the same constants at every step. tfjs opens a
 * scope named after each op that it runs, which is the one place that all of them pass.
 */
export function refuseRandomOps(binding: TensorflowBinding): void {
  const scopes = tf.engine() as unknown as { startScope(name?: string): void };
  const startScope = scopes.startScope;
  scopes.startScope = function guarded(this: typeof scopes, name?: string): void {
    const op = name?.endsWith('__op') ? name.slice(0, -'__op'.length) : undefined;
    if (op !== undefined && binding.recording && RANDOM_OPS.has(op)) {
      const at = userLine(captureOrigin(guarded));
      throw new AlambicError(
        'RANDOM_WHILE_RECORDING',
        `tf.${op} was called inside a recorded function: its numbers would be constants, the same at every step`,
        {
          ...(at === undefined ? {} : { at }),
          hint: 'Use dropout, randomUniform or randomNormal of alambic with a key of step.random(purpose); for numbers that never change, make the tensor outside of the recorded function.',
        },
      );
    }
    startScope.call(this, name);
  };
}
