import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { AlambicError } from '../errors.ts';
import type { TensorRecord } from '../formats/safetensors.ts';
import type { TensorData } from '../formats/tensor-data.ts';
import { flattenTree, type Tree } from '../tree.ts';
import type { TrainState } from './state.ts';

/** Values of a tree of tensors as arrays by path (`slots/fc.weight/momentum`), bit for bit. */
export function readTree(tree: Tree<Tensor>): TensorRecord {
  const record: Record<string, TensorData> = {};
  for (const [path, tensor] of flattenTree<Tensor>(tree)) record[path] = readTensor(tensor);
  return record;
}

/** One tensor's values as an array. Throws ENGINE_DTYPE for types that no state has. */
export function readTensor(tensor: Tensor): TensorData {
  const data = tensor.dataSync();
  if (tensor.dtype === 'float32') return { dtype: 'F32', shape: tensor.shape, data: data as Float32Array };
  if (tensor.dtype === 'int32') return { dtype: 'I32', shape: tensor.shape, data: data as Int32Array };
  if (tensor.dtype === 'bool') return { dtype: 'BOOL', shape: tensor.shape, data: data as Uint8Array };
  throw new AlambicError('ENGINE_DTYPE', `state tensors are float32, int32 or bool, got ${tensor.dtype}`);
}

/** A tensor of an array read from a file. */
export function makeTensor({ dtype, shape, data }: TensorData, at: string): Tensor {
  switch (dtype) {
    case 'F32':
      return tf.tensor(data as Float32Array, [...shape], 'float32');
    case 'I32':
      return tf.tensor(data as Int32Array, [...shape], 'int32');
    case 'BOOL':
      return tf.tensor(data as Uint8Array, [...shape], 'bool');
    default:
      throw new AlambicError('CHECKPOINT_CONTENT', `${at}: state tensors are F32, I32 or BOOL, got ${dtype}`);
  }
}

/** Puts saved paths back into nested records. The first four path levels of a state are fixed, so no schema is needed. */
function nest(record: TensorRecord): Record<string, unknown> {
  const root: Record<string, unknown> = {};
  for (const [path, data] of Object.entries(record)) {
    const keys = path.split('/');
    let node = root;
    for (const key of keys.slice(0, -1)) {
      node[key] ??= {};
      node = node[key] as Record<string, unknown>;
    }
    node[keys[keys.length - 1]!] = makeTensor(data, path);
  }
  return root;
}

/** The training state of a checkpoint; records that were empty when it was saved are empty again. */
export function restoreState(record: TensorRecord): TrainState {
  const root = nest(record) as Partial<Record<keyof TrainState, Record<string, unknown>>>;
  const ema = (root.ema ?? {}) as Partial<TrainState['ema']>;
  if (root.params === undefined || root.counters === undefined) {
    throw new AlambicError('CHECKPOINT_CONTENT', 'the checkpoint holds no training state', {
      hint: 'It may be a model folder: name it under `models.<name>.weights` instead of resuming from it.',
    });
  }
  return {
    params: root.params as TrainState['params'],
    buffers: (root.buffers ?? {}) as TrainState['buffers'],
    slots: (root.slots ?? {}) as TrainState['slots'],
    ema: { params: ema.params ?? {}, buffers: ema.buffers ?? {}, counters: ema.counters ?? {} },
    accumulator: (root.accumulator ?? {}) as TrainState['accumulator'],
    scaler: (root.scaler ?? {}) as TrainState['scaler'],
    counters: root.counters as unknown as TrainState['counters'],
  };
}
