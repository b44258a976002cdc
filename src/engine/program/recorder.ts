import type { Library } from '../tensorflow/library.ts';
import type { OpDef } from '../tensorflow/op-defs.ts';
import { captureOrigin, Status } from '../tensorflow/status.ts';
import { GraphBuilder } from './graph-builder.ts';
import type { Attr, Op, Origin, Program, Value } from './program.ts';

/** Collects the ops of one function while it runs symbolically. Shapes come from TensorFlow's own shape functions. */
export class Recorder {
  readonly name: string;
  readonly ops: Op[] = [];
  readonly inputs: Value[] = [];
  readonly #defs: ReadonlyMap<string, OpDef>;
  readonly #graph: GraphBuilder;
  readonly #status: Status;
  #next = 0;

  constructor(name: string, c: Library, defs: ReadonlyMap<string, OpDef>) {
    this.name = name;
    this.#defs = defs;
    this.#status = new Status(c);
    this.#graph = new GraphBuilder(c, defs, this.#status);
  }

  /** A new argument of the function. */
  addInput(dtype: number, shape: readonly number[]): Value {
    const value = this.#append('Input', [], [], undefined, [{ dtype, shape }]).outputs[0]!;
    this.inputs.push(value);
    return value;
  }

  /** A constant with a copy of `bytes`. */
  addConstant(dtype: number, shape: readonly number[], bytes: Uint8Array): Value {
    return this.#append('Const', [], [], undefined, [{ dtype, shape }], bytes.slice()).outputs[0]!;
  }

  /** Any op; fails with the user's line where TensorFlow refuses it. */
  addOp(type: string, attrs: readonly Attr[], inputs: readonly Value[], outputs: number): readonly Value[] {
    return this.#append(type, attrs, inputs, captureOrigin(this.addOp), outputs).outputs;
  }

  /** The program that computes `outputs`. */
  finish(outputs: readonly Value[]): Program {
    return { name: this.name, ops: this.ops, inputs: this.inputs, outputs };
  }

  /** Frees the graph that served for shapes; call it once recording is over, however it ended. */
  delete(): void {
    this.#graph.delete();
    this.#status.delete();
  }

  #append(
    type: string,
    attrs: readonly Attr[],
    inputs: readonly Value[],
    origin: Origin | undefined,
    outputs: number | readonly { dtype: number; shape: readonly number[] | undefined }[],
    constant?: Uint8Array,
  ): Op {
    const values: Value[] = [];
    const op: Op = {
      id: this.#next++,
      type,
      attrs,
      inputs,
      outputs: values,
      stateful: this.#defs.get(type)?.stateful ?? false,
      origin,
      ...(constant === undefined ? {} : { constant }),
    };
    const addOutputs = (described: readonly { dtype: number; shape: readonly number[] | undefined }[]) => {
      described.forEach(({ dtype, shape }, index) => {
        values.push({ op, index, dtype, shape });
      });
    };
    if (typeof outputs !== 'number') addOutputs(outputs);
    this.#graph.add(op);
    if (typeof outputs === 'number') addOutputs(this.#graph.infer(op, outputs));
    this.ops.push(op);
    return op;
  }
}
