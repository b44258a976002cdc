import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { AlambicError } from '../errors.ts';
import type { TensorRecord } from '../formats/safetensors.ts';
import { initialise } from '../nn/describe.ts';
import type { ModelState, Tensors } from '../nn/module.ts';
import { initialEma } from '../optim/ema.ts';
import { flattenTree, type Tree } from '../tree.ts';
import type { StageBlueprint } from './stage-blueprint.ts';
import type { TrainState } from './state.ts';
import { restoreState } from './state-record.ts';

const copy = (tensors: Readonly<Tensors>): Record<string, Tensor> =>
  Object.fromEntries(Object.entries(tensors).map(([name, value]) => [name, tf.clone(value)]));

/** State at the beginning of a stage. It shares nothing with the values that the stage was given. */
export function initialState(blueprint: StageBlueprint): TrainState {
  const { input, modules, ownParameters, ownBuffers } = blueprint;
  const own = initialise({ parameters: ownParameters, buffers: ownBuffers }, input.seed);
  const params = { ...copy(input.initial.params), ...own.params };
  const buffers = { ...copy(input.initial.buffers), ...own.buffers };
  for (const [full, { initial }] of Object.entries(modules)) {
    if (initial !== 'student') continue;
    for (const [target, source] of [
      [params, input.initial.params],
      [buffers, input.initial.buffers],
    ] as const) {
      for (const name of Object.keys(target)) {
        const value = name.startsWith(`${full}.`) ? source[name.slice(full.length + 1)] : undefined;
        if (value === undefined || value.shape.join() !== target[name]!.shape.join()) continue;
        target[name]!.dispose();
        target[name] = tf.clone(value);
      }
    }
  }
  const zero = () => tf.scalar(0, 'int32');
  return withSlots(blueprint, {
    params,
    buffers,
    slots: {},
    ema: input.ema === undefined ? { params: {}, buffers: {}, counters: {} } : initialEma(input.initial),
    accumulator: {},
    scaler: {},
    counters: { updates: zero(), batches: zero(), skipped: zero() },
  });
}

/** The state with slots (and accumulators) for exactly the parameters that train now; those of others go. */
export function withSlots({ input, plan }: StageBlueprint, state: TrainState): TrainState {
  const slots: Record<string, Tensors> = {};
  const accumulator: Record<string, Tensor> = {};
  for (const [name, { trainable }] of plan.assignments) {
    if (!trainable) continue;
    slots[name] = state.slots[name] ?? input.optimizer.init(name, state.params[name]!);
    if (input.accumulate > 1) accumulator[name] = state.accumulator[name] ?? tf.zerosLike(state.params[name]!);
  }
  for (const [name, tensors] of Object.entries(state.slots)) if (slots[name] === undefined) tf.dispose(tensors);
  for (const [name, tensor] of Object.entries(state.accumulator)) if (accumulator[name] === undefined) tensor.dispose();
  return { ...state, slots, accumulator };
}

/**
 * The state of a checkpoint, for the phase that the blueprint stands in.
 *
 * @throws AlambicError CHECKPOINT_MISMATCH where it is the state of another network, optimizer or set of options.
 */
export function resumedState(blueprint: StageBlueprint, tensors: TensorRecord): TrainState {
  const restored = restoreState(tensors);
  const expected = initialState(blueprint);
  try {
    checkStructure(blueprint.input.name, restored, expected);
  } catch (error) {
    tf.dispose(restored as unknown as tf.TensorContainer);
    throw error;
  } finally {
    tf.dispose(expected as unknown as tf.TensorContainer);
  }
  // Parameters whose optimizer keeps nothing have no entry in the file.
  return withSlots(blueprint, restored);
}

function checkStructure(stage: string, restored: TrainState, expected: TrainState): void {
  // Sums are zero between two updates, so that the number of batches per update may change at a resume.
  const shapesOf = (state: TrainState) =>
    new Map(
      flattenTree<Tensor>(state as unknown as Tree<Tensor>)
        .filter(([path]) => !path.startsWith('accumulator/'))
        .map(([path, { dtype, shape }]) => [path, `${dtype} [${shape}]`]),
    );
  const found = shapesOf(restored);
  const wanted = shapesOf(expected);
  const missing = [...wanted.keys()].filter((path) => !found.has(path));
  const unexpected = [...found.keys()].filter((path) => !wanted.has(path));
  const other = [...wanted].filter(([path, shape]) => found.has(path) && found.get(path) !== shape);
  if (missing.length + unexpected.length + other.length === 0) return;
  const list = (what: string, names: readonly string[]) =>
    names.length === 0
      ? []
      : [`${what} ${names.slice(0, 3).join(', ')}${names.length > 3 ? `, … (${names.length})` : ''}`];
  throw new AlambicError(
    'CHECKPOINT_MISMATCH',
    `the checkpoint is not one of stage "${stage}" as it is now: ${[
      ...list('it lacks', missing),
      ...list('it has in addition', unexpected),
      ...list(
        'of another shape are',
        other.map(([path, shape]) => `${path} (${found.get(path)}, now ${shape})`),
      ),
    ].join('; ')}`,
    {
      hint: 'A resumed run must have the same model, strategies, optimizer and EMA as the one that was stopped; rates and epochs may change. For another set-up start a new run.',
    },
  );
}

/** The student's part of a record: without the strategies' own modules. */
const studentOf = (tensors: Readonly<Tensors>): Tensors =>
  Object.fromEntries(Object.entries(tensors).filter(([name]) => !name.startsWith('strategies.')));

/** The student's values that are evaluated and handed on: its average where `averaged`, else the raw ones. Views, not copies. */
export function studentValues(state: TrainState, averaged: boolean): ModelState {
  const { params, buffers } = averaged ? state.ema : state;
  return { params: studentOf(params), buffers: studentOf(buffers) };
}

/** Copies of a network's values, which belong to the caller. */
export function copyModel(model: ModelState): ModelState {
  return { params: copy(model.params), buffers: copy(model.buffers) };
}
