import type { Library, Pointer } from '../tensorflow/library.ts';
import type { OpDef } from '../tensorflow/op-defs.ts';
import { Status } from '../tensorflow/status.ts';
import { GraphBuilder } from './graph-builder.ts';
import type { Program, Value } from './program.ts';

/** A program as a function that a TensorFlow context can run. */
export interface LoweredFunction {
  readonly name: string;
  readonly handle: Pointer;
  /** The program's inputs that the function takes, in its order: inputs nobody reads are left out. */
  readonly inputs: readonly Value[];
}

let count = 0;

/** Lowers a program to a TF_Function. The caller registers it with a context and deletes the handle. */
export function lowerToFunction(c: Library, defs: ReadonlyMap<string, OpDef>, program: Program): LoweredFunction {
  const status = new Status(c);
  const builder = new GraphBuilder(c, defs, status);
  try {
    const read = new Set<Value>(program.outputs);
    for (const op of program.ops) for (const input of op.inputs) read.add(input);
    const inputs = program.inputs.filter((value) => read.has(value));
    for (const op of program.ops) if (op.type !== 'Input' || read.has(op.outputs[0]!)) builder.add(op);
    // The name holds no user text but its letters: TensorFlow's rule for function names is [A-Za-z0-9_.].
    const name = `alambic_${program.name.replace(/[^A-Za-z0-9]+/g, '_')}_${count++}`;
    const ins = inputs.map((value) => builder.output(value));
    const outs = program.outputs.map((value) => builder.output(value));
    const handle = c.toFunction(
      builder.graph,
      name,
      0,
      -1,
      null,
      ins.length,
      ins,
      outs.length,
      outs,
      null,
      null,
      null,
      status.pointer,
    );
    status.check(`function ${program.name}`);
    return { name, handle, inputs };
  } finally {
    builder.delete();
    status.delete();
  }
}
