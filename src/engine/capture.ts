import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { AlambicError } from '../errors.ts';
import { flattenTree, type Tree, treeLeaves, unflattenTree } from '../tree.ts';
import { type EngineMode, engine } from './engine.ts';
import { type LoweredFunction, lowerToFunction } from './program/lower.ts';
import { runPasses } from './program/passes.ts';
import type { Program, Value } from './program/program.ts';
import { Recorder } from './program/recorder.ts';
import { DTYPE, dtypeName } from './tensorflow/dtypes.ts';

export interface CaptureOptions {
  /** How it runs. @default the engine's mode at the time of the call */
  readonly mode?: EngineMode;
}

/** What is known of a recording, for logs and `check`. */
export interface RecordingInfo {
  /** Ops as recorded, before the passes. */
  readonly recordedOps: number;
  /** Ops that run. */
  readonly ops: number;
  readonly milliseconds: number;
}

/**
 * A compiled function of trees of tensors. It is recorded once per input signature (structure, shapes, types). Its arguments are left
 * as they are; its results belong to the caller, who disposes them.
 */
export interface Captured<A extends readonly Tree<Tensor>[], R extends Tree<Tensor>> {
  (...args: A): Promise<R>;
  /** Records for these arguments without running, if that has not been done. */
  record(...args: A): RecordingInfo;
  /** The optimised program of the last signature recorded. */
  readonly program: Program | undefined;
  /** Frees the compiled functions. */
  dispose(): void;
}

interface Compiled {
  readonly program: Program;
  readonly info: RecordingInfo;
  /** Per output leaf: the position of the function's result, or of the argument leaf that is passed through. */
  readonly outputs: readonly (
    | { readonly result: number }
    | { readonly argument: number }
    | { readonly captured: number }
  )[];
  readonly structure: Tree<null>;
  /** Per input of the program: leaf of the arguments, or id of a captured tensor. */
  readonly sources: ReadonlyMap<Value, { readonly argument: number } | { readonly captured: number }>;
  readonly captured: readonly number[];
  lowered: LoweredFunction | undefined;
}

function dtypeOf(tensor: Tensor): number {
  return engine().backend.tensorMap.get(tensor.dataId).dtype;
}

function signatureOf(args: readonly Tree<Tensor>[]): string {
  let text = '';
  for (const [path, leaf] of flattenTree<Tensor>(args as Tree<Tensor>)) {
    if (!(leaf instanceof tf.Tensor)) {
      throw new AlambicError(
        'CAPTURE_ARGUMENT',
        `expected tensors as leaves of the arguments, argument ${path} is ${typeof leaf}`,
        {
          hint: 'Make a scalar tensor of numbers that change from call to call; close over those that do not.',
        },
      );
    }
    text += `${path}:${dtypeOf(leaf)}[${leaf.shape}]`;
  }
  return text;
}

/** Runs `fn` symbolically. Gives the recorded program before any pass. */
function recordProgram<R extends Tree<Tensor>>(
  name: string,
  inputs: readonly { dtype: number; shape: readonly number[] }[],
  fn: (symbols: Tensor[]) => R,
): { program: Program; structure: Tree<null>; captured: ReadonlyMap<number, Value> } {
  const { binding, backend } = engine();
  const recorder = new Recorder(name, binding.library, binding.opDefs);
  binding.startRecording(recorder);
  tf.engine().startScope(name);
  let program: Program | undefined;
  let structure: Tree<null> = null;
  try {
    const symbols = inputs.map(({ dtype, shape }) =>
      backend.createOutputTensor(binding.symbol(recorder.addInput(dtype, shape))),
    );
    const result = fn(symbols);
    if (typeof (result as { then?: unknown })?.then === 'function') {
      throw new AlambicError('CAPTURE_ASYNC', `the captured function "${name}" returned a promise`, {
        hint: 'A recorded function must be synchronous; await outside of it.',
      });
    }
    const leaves = flattenTree<Tensor>(result);
    for (const [path, leaf] of leaves) {
      if (!(leaf instanceof tf.Tensor)) {
        throw new AlambicError(
          'CAPTURE_RESULT',
          `expected tensors as results of "${name}", ${path === '' ? 'it' : path} is ${typeof leaf}`,
        );
      }
    }
    structure = unflattenTree<Tensor, null>(
      result,
      leaves.map(() => null),
    );
    program = recorder.finish(
      backend.getInputTensorIds(leaves.map(([, leaf]) => leaf)).map((id) => binding.valueOf(id)),
    );
  } finally {
    tf.engine().endScope();
    recorder.delete();
    const { captured } = binding.endRecording();
    if (program === undefined) for (const id of captured.keys()) binding.deleteTensor(id);
    else capturedOf.set(program, captured);
  }
  return { program, structure, captured: capturedOf.get(program)! };
}

const capturedOf = new WeakMap<Program, ReadonlyMap<number, Value>>();

/**
 * Compiles a pure, synchronous function of tensors.
 *
 * @example
 * const square = capture('square', (x: tf.Tensor) => tf.mul(x, x));
 * const y = await square(tf.tensor1d([1, 2, 3]));
 */
export function capture<A extends readonly Tree<Tensor>[], R extends Tree<Tensor>>(
  name: string,
  fn: (...args: A) => R,
  options: CaptureOptions = {},
): Captured<A, R> {
  const cache = new Map<string, Compiled>();
  let latest: Compiled | undefined;

  const compile = (args: A): Compiled => {
    const started = performance.now();
    const leaves = treeLeaves<Tensor>(args as Tree<Tensor>);
    const inputs = leaves.map((leaf) => ({ dtype: dtypeOf(leaf), shape: leaf.shape }));
    const recorded = recordProgram(name, inputs, (symbols) =>
      fn(...(unflattenTree<Tensor, Tensor>(args as Tree<Tensor>, symbols) as unknown as A)),
    );
    const optimised = runPasses(recorded.program, engine().passes);
    const sources = new Map<Value, { argument: number } | { captured: number }>();
    const ids = [...recorded.captured.keys()];
    recorded.program.inputs.slice(0, inputs.length).forEach((value, argument) => {
      sources.set(value, { argument });
    });
    for (const [id, value] of recorded.captured) sources.set(value, { captured: id });
    const results: Value[] = [];
    const outputs = optimised.outputs.map((value) => {
      const source = sources.get(value);
      if (source !== undefined) return source;
      results.push(value);
      return { result: results.length - 1 };
    });
    const compiled: Compiled = {
      program: { ...optimised, outputs: results },
      info: {
        recordedOps: recorded.program.ops.length,
        ops: optimised.ops.length,
        milliseconds: performance.now() - started,
      },
      outputs,
      structure: recorded.structure,
      sources,
      captured: ids,
      lowered: undefined,
    };
    return compiled;
  };

  const find = (args: A): Compiled => {
    // Values still lying in JavaScript are uploaded first: inside the recording they would become constants.
    engine().backend.getInputTensorIds(treeLeaves<Tensor>(args as Tree<Tensor>));
    const signature = signatureOf(args as readonly Tree<Tensor>[]);
    let compiled = cache.get(signature);
    if (compiled === undefined) {
      compiled = compile(args);
      cache.set(signature, compiled);
    }
    latest = compiled;
    return compiled;
  };

  const runEager = (args: A): R => {
    const { backend } = engine();
    backend.getInputTensorIds(treeLeaves<Tensor>(args as Tree<Tensor>));
    const given = new Set(treeLeaves<Tensor>(args as Tree<Tensor>));
    const result = tf.tidy(() => {
      const out = fn(...args);
      // A leaf passed through is cloned, so that results can be disposed without harm to the arguments.
      const leaves = treeLeaves<Tensor>(out).map((leaf) => (given.has(leaf) ? tf.clone(leaf) : leaf));
      return unflattenTree<Tensor, Tensor>(out, leaves) as never;
    });
    return result as R;
  };

  const run = async (...args: A): Promise<R> => {
    const mode = options.mode ?? engine().mode;
    if (engine().binding.recording) {
      throw new AlambicError('RECORDING_NESTED', `"${name}" was called while another function is being recorded`, {
        hint: 'Call the plain function instead of the captured one.',
      });
    }
    if (mode === 'eager') return runEager(args);
    const { binding, backend } = engine();
    const compiled = find(args);
    if (compiled.lowered === undefined && compiled.program.outputs.length > 0) {
      compiled.lowered = lowerToFunction(binding.library, binding.opDefs, compiled.program);
      binding.addFunction(compiled.lowered);
    }
    const leaves = treeLeaves<Tensor>(args as Tree<Tensor>);
    const ids = backend.getInputTensorIds(leaves);
    const idOf = (value: Value) => {
      const source = compiled.sources.get(value)!;
      return 'argument' in source ? ids[source.argument]! : source.captured;
    };
    // Passed-through leaves are cloned before anything is awaited: the caller may dispose the arguments meanwhile.
    const passed = compiled.outputs.map((output) =>
      'argument' in output ? tf.clone(leaves[output.argument]!) : undefined,
    );
    const results =
      compiled.lowered === undefined
        ? []
        : (
            await binding.runFunction(
              compiled.lowered,
              compiled.program,
              compiled.lowered.inputs.map(idOf),
              mode === 'xla',
            )
          ).map((metadata) => backend.createOutputTensor(metadata));
    const out = compiled.outputs.map((output, i) => {
      if ('result' in output) return results[output.result]!;
      if ('argument' in output) return passed[i]!;
      throw new AlambicError('CAPTURE_RESULT', `"${name}" returns a tensor that it neither computed nor was given`);
    });
    return unflattenTree<null, Tensor>(compiled.structure, out) as R;
  };

  return Object.assign(run, {
    record: (...args: A): RecordingInfo => find(args).info,
    get program() {
      return latest?.program;
    },
    dispose: () => {
      const { binding } = engine();
      for (const compiled of cache.values()) {
        if (compiled.lowered !== undefined) binding.removeFunction(compiled.lowered.name);
        for (const id of compiled.captured) binding.deleteTensor(id);
      }
      cache.clear();
      latest = undefined;
    },
  }) as Captured<A, R>;
}

/** Shape and type of an argument of a dry run. */
export interface InputSpec {
  readonly shape: readonly number[];
  /** @default 'float32' */
  readonly dtype?: 'float32' | 'int32' | 'bool' | 'uint8';
}

/**
 * A dry run: records what `fn` would do with tensors of these shapes, and never executes it. Shapes, taps and multiply-accumulates
 * are read off the program. The symbols that `fn` got are gone when it returns: take their shapes inside of it.
 */
export function trace<R>(
  name: string,
  inputs: readonly InputSpec[],
  fn: (...symbols: Tensor[]) => R,
): { program: Program; result: R } {
  let kept: R | undefined;
  const { program, captured } = recordProgram(
    name,
    inputs.map(({ shape, dtype }) => ({ shape, dtype: DTYPE[dtype ?? 'float32'] })),
    (symbols) => {
      kept = fn(...symbols);
      const leaves = treeLeaves(kept as Tree<unknown>).filter((leaf): leaf is Tensor => leaf instanceof tf.Tensor);
      return leaves as unknown as Tree<Tensor>;
    },
  );
  for (const id of captured.keys()) engine().binding.deleteTensor(id);
  return { program, result: kept as R };
}

/** A symbolic tensor of the recording in progress: an argument that was not listed. Only inside `trace` or a captured function. */
export function placeholder(shape: readonly number[], dtype: 'float32' | 'int32' = 'float32'): Tensor {
  const { binding, backend } = engine();
  return backend.createOutputTensor(binding.addPlaceholder(DTYPE[dtype], shape));
}

/** Whether a function is being recorded right now. */
export function isRecording(): boolean {
  return engine().binding.recording;
}

/** Name of the type a tensor really has on the device, which tfjs does not always know (uint8). */
export function deviceDtype(tensor: Tensor): string {
  return dtypeName(dtypeOf(tensor));
}
