import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { AlambicError } from '../errors.ts';
import { flattenTree, mapTree, type Tree, treeLeaves, unflattenTree } from '../tree.ts';
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
  /** Runs in flight, and whether it is to be freed once there are none: TensorFlow looks a function up when its thread starts. */
  running: number;
  disposed: boolean;
}

function dtypeOf(tensor: Tensor): number {
  return engine().backend.tensorMap.get(tensor.dataId).dtype;
}

/** The tensors of the arguments, and a text that is equal for equal structures, shapes and types. */
function describeArguments(args: readonly Tree<Tensor>[]): { leaves: Tensor[]; signature: string } {
  const leaves: Tensor[] = [];
  const { tensorMap } = engine().backend;
  let signature = '';
  const visit = (node: Tree<Tensor>, path: string): void => {
    if (node instanceof tf.Tensor) {
      if (node.isDisposed) {
        throw new AlambicError('TENSOR_DISPOSED', `argument ${path} is a tensor that was disposed`, {
          hint: 'Dispose a tensor after its last use; results of captured functions belong to the caller.',
        });
      }
      leaves.push(node);
      signature += `${tensorMap.get(node.dataId).dtype}[${node.shape.join()}]`;
      return;
    }
    if (Array.isArray(node)) {
      signature += '(';
      for (let i = 0; i < node.length; i++) {
        visit(node[i], path === '' ? String(i) : `${path}/${i}`);
        signature += ',';
      }
      signature += ')';
      return;
    }
    if (!isPlainObject(node)) {
      const found = node === null ? 'null' : typeof node;
      throw new AlambicError('CAPTURE_ARGUMENT', `expected tensors as leaves of the arguments, ${path} is ${found}`, {
        hint: 'Make a scalar tensor of numbers that change from call to call; close over those that do not.',
      });
    }
    signature += '{';
    for (const key of Object.keys(node)) {
      signature += `${JSON.stringify(key)}:`;
      visit(node[key]!, `${path}/${key}`);
    }
    signature += '}';
  };
  visit(args, '');
  return { leaves, signature };
}

function isPlainObject(node: unknown): node is { readonly [key: string]: Tree<Tensor> } {
  if (typeof node !== 'object' || node === null) return false;
  const prototype: unknown = Object.getPrototypeOf(node);
  return prototype === Object.prototype || prototype === null;
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

  const compile = (args: A, leaves: readonly Tensor[]): Compiled => {
    const started = performance.now();
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
    return {
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
      running: 0,
      disposed: false,
    };
  };

  const find = (args: A): { compiled: Compiled; leaves: readonly Tensor[]; ids: readonly number[] } => {
    const { leaves, signature } = describeArguments(args);
    // Values still lying in JavaScript are uploaded first: inside the recording they would become constants.
    const ids = engine().backend.getInputTensorIds(leaves);
    let compiled = cache.get(signature);
    if (compiled === undefined) {
      compiled = compile(args, leaves);
      cache.set(signature, compiled);
    }
    latest = compiled;
    return { compiled, leaves, ids };
  };

  const runEager = (args: A): R => {
    engine().backend.getInputTensorIds(describeArguments(args).leaves);
    // Each leaf is cloned, so that results can be disposed without harm to arguments, outer tensors or each other.
    return tf.tidy(() => mapTree<Tensor, Tensor>(fn(...args), (leaf) => tf.clone(leaf)) as never) as R;
  };

  const free = (compiled: Compiled): void => {
    const { binding } = engine();
    if (compiled.lowered !== undefined) binding.removeFunction(compiled.lowered.name);
    for (const id of compiled.captured) binding.deleteTensor(id);
  };

  const execute = async (compiled: Compiled, ids: readonly number[], mode: EngineMode): Promise<Tensor[]> => {
    if (compiled.program.outputs.length === 0) return [];
    const { binding, backend } = engine();
    if (compiled.lowered === undefined) {
      compiled.lowered = lowerToFunction(binding.library, binding.opDefs, compiled.program);
      binding.addFunction(compiled.lowered);
    }
    const inputs = compiled.lowered.inputs.map((value) => {
      const source = compiled.sources.get(value)!;
      return 'argument' in source ? ids[source.argument]! : source.captured;
    });
    compiled.running++;
    try {
      const results = await binding.runFunction(compiled.lowered, compiled.program, inputs, mode === 'xla');
      return results.map((metadata) => backend.createOutputTensor(metadata));
    } finally {
      compiled.running--;
      if (compiled.disposed && compiled.running === 0) free(compiled);
    }
  };

  const run = async (...args: A): Promise<R> => {
    const { mode: engineMode, binding, backend } = engine();
    const mode = options.mode ?? engineMode;
    if (binding.recording) {
      throw new AlambicError('RECORDING_NESTED', `"${name}" was called while another function is being recorded`, {
        hint: 'Call the plain function instead of the captured one.',
      });
    }
    if (mode === 'eager') return runEager(args);
    const { compiled, leaves, ids } = find(args);
    // What is passed through is cloned before anything is awaited: the caller may dispose the arguments meanwhile.
    const passed = compiled.outputs.map((output) => {
      if ('argument' in output) return tf.clone(leaves[output.argument]!);
      if ('captured' in output) return backend.createOutputTensor(binding.share(output.captured));
      return undefined;
    });
    try {
      const results = await execute(compiled, ids, mode);
      const out = compiled.outputs.map((output, i) => ('result' in output ? results[output.result]! : passed[i]!));
      return unflattenTree<null, Tensor>(compiled.structure, out) as R;
    } catch (error) {
      for (const tensor of passed) tensor?.dispose();
      throw error;
    }
  };

  const captured = Object.assign(run, {
    record: (...args: A): RecordingInfo => find(args).compiled.info,
    dispose: () => {
      for (const compiled of cache.values()) {
        compiled.disposed = true;
        if (compiled.running === 0) free(compiled);
      }
      cache.clear();
      latest = undefined;
    },
  });
  Object.defineProperty(captured, 'program', { get: () => latest?.program });
  return captured as Captured<A, R>;
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
