import { AlambicError } from '../../errors.ts';
import { bytesPerElement, dtypeName, sizeOf } from '../tensorflow/dtypes.ts';
import { type GraphOutput, type Library, type Pointer, viewMemory } from '../tensorflow/library.ts';
import type { OpDef } from '../tensorflow/op-defs.ts';
import type { Status } from '../tensorflow/status.ts';
import { type AttributeSetters, setAttribute, toDims } from './attributes.ts';
import { nodeName, type Op, type Value } from './program.ts';

/** A TF_Tensor with a copy of `bytes`. The caller deletes it. */
export function allocateTensor(c: Library, dtype: number, shape: readonly number[], bytes: Uint8Array): Pointer {
  const element = bytesPerElement(dtype);
  if (element === undefined) {
    throw new AlambicError('ENGINE_DTYPE', `cannot make a tensor of ${dtypeName(dtype)} from bytes`);
  }
  const length = sizeOf(shape) * element;
  if (bytes.byteLength !== length) {
    throw new AlambicError(
      'ENGINE_VALUES',
      `a ${dtypeName(dtype)} tensor of shape [${shape}] needs ${length} bytes, got ${bytes.byteLength}`,
    );
  }
  const tensor = c.allocateTensor(dtype, toDims(shape), shape.length, length);
  if (length > 0) viewMemory(c.tensorData(tensor), length).set(bytes);
  return tensor;
}

/** Adds ops of a Program to a TF_Graph. The recorder grows one op by op to learn shapes; lowering builds one of the final ops. */
export class GraphBuilder {
  readonly graph: Pointer;
  readonly #c: Library;
  readonly #defs: ReadonlyMap<string, OpDef>;
  readonly #status: Status;
  readonly #nodes = new Map<Op, Pointer>();

  constructor(c: Library, defs: ReadonlyMap<string, OpDef>, status: Status) {
    this.#c = c;
    this.#defs = defs;
    this.#status = status;
    this.graph = c.newGraph();
  }

  /** Adds one op whose inputs are there already. */
  add(op: Op): void {
    const c = this.#c;
    const name = nodeName(op);
    const fail = () => op.origin;
    if (op.type === 'Input') {
      const node = c.newOperation(this.graph, 'Placeholder', name);
      const output = op.outputs[0]!;
      c.setType(node, 'dtype', output.dtype);
      const shape = output.shape ?? [];
      c.setShape(node, 'shape', toDims(shape), shape.length);
      this.#finish(op, node);
      return;
    }
    const node = c.newOperation(this.graph, op.type, name);
    if (op.type === 'Const') {
      const output = op.outputs[0]!;
      const tensor = allocateTensor(c, output.dtype, output.shape ?? [], op.constant ?? new Uint8Array());
      c.setTensor(node, 'value', tensor, this.#status.pointer);
      c.deleteTensor(tensor);
      this.#status.check('Const', fail);
      c.setType(node, 'dtype', output.dtype);
      this.#finish(op, node);
      return;
    }
    const def = this.#defs.get(op.type);
    const counts = new Set<string>();
    if (def?.inputs.some((input) => input.list)) {
      let at = 0;
      const lists = def.inputs.filter((input) => input.list).length;
      for (const input of def.inputs) {
        if (!input.list) {
          c.addInput(node, this.output(op.inputs[at++]!));
          continue;
        }
        if (input.numberAttr !== undefined) counts.add(input.numberAttr);
        const stated = op.attrs.find((attr) => attr.name === input.numberAttr)?.value;
        const length =
          typeof stated === 'number'
            ? stated
            : Math.floor((op.inputs.length - (def.inputs.length - lists)) / Math.max(1, lists));
        const part = op.inputs.slice(at, at + length).map((value) => this.output(value));
        c.addInputList(node, part, part.length);
        at += length;
      }
    } else {
      for (const value of op.inputs) c.addInput(node, this.output(value));
    }
    const setters = this.#settersOf(node);
    for (const attr of op.attrs) if (!counts.has(attr.name)) setAttribute(setters, attr);
    this.#finish(op, node);
  }

  /** The graph's output for a value of an op that was added. */
  output(value: Value): GraphOutput {
    const oper = this.#nodes.get(value.op);
    if (oper === undefined)
      throw new AlambicError('ENGINE_ORDER', `op ${nodeName(value.op)} is used before it is made`);
    return { oper, index: value.index };
  }

  /** Number of outputs, and dtype and static shape of each, as TensorFlow's shape functions infer them. */
  infer(op: Op, count: number): { dtype: number; shape: number[] | undefined }[] {
    const oper = this.#nodes.get(op);
    return Array.from({ length: count }, (_, index) => {
      const output = { oper, index };
      const rank = this.#c.graphRank(this.graph, output, this.#status.pointer);
      this.#status.check(op.type, () => op.origin);
      const dtype = this.#c.outputType(output);
      if (rank < 0) return { dtype, shape: undefined };
      if (rank === 0) return { dtype, shape: [] };
      const dims = new BigInt64Array(rank);
      this.#c.graphShape(this.graph, output, dims, rank, this.#status.pointer);
      this.#status.check(op.type, () => op.origin);
      return { dtype, shape: Array.from(dims, Number) };
    });
  }

  delete(): void {
    this.#c.deleteGraph(this.graph);
    this.#nodes.clear();
  }

  #finish(op: Op, node: Pointer): void {
    const made = this.#c.finishOperation(node, this.#status.pointer);
    this.#status.check(op.type, () => op.origin);
    this.#nodes.set(op, made);
  }

  #settersOf(node: Pointer): AttributeSetters {
    const c = this.#c;
    return {
      text: (name, value) => {
        const bytes = Buffer.from(value);
        c.setString(node, name, bytes, bytes.length);
      },
      int: (name, value) => c.setInt(node, name, value),
      ints: (name, values) => c.setIntList(node, name, values, values.length),
      float: (name, value) => c.setFloat(node, name, value),
      floats: (name, values) => c.setFloatList(node, name, values, values.length),
      bool: (name, value) => c.setBool(node, name, value),
      type: (name, value) => c.setType(node, name, value),
      shape: (name, dims) => c.setShape(node, name, dims, dims.length),
    };
  }
}
