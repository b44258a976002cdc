/** Attribute of an op, in tfjs's form: `type` is tfjs's attribute type number (see `ATTR`). */
export interface Attr {
  readonly name: string;
  readonly type: number;
  readonly value: AttrValue;
}
export type AttrValue = string | number | boolean | readonly number[] | null | undefined;

/** TensorFlow's attribute type numbers as tfjs uses them. */
export const ATTR = { string: 0, int: 1, float: 2, bool: 3, type: 4, shape: 5 } as const;

/** One result of one op: what flows between ops. Unknown dimensions are -1; unknown rank is `undefined`. */
export interface Value {
  readonly op: Op;
  readonly index: number;
  readonly dtype: number;
  readonly shape: readonly number[] | undefined;
}

/** Where in the user's code an op was made: a captured stack, formatted only if someone asks. */
export interface Origin {
  readonly stack?: string;
}

/** One operation of a program. `Input` and `Const` are ops as well: without inputs, one output. */
export interface Op {
  readonly id: number;
  readonly type: string;
  readonly attrs: readonly Attr[];
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly stateful: boolean;
  readonly origin: Origin | undefined;
  /** Bytes of a `Const`. */
  readonly constant?: Uint8Array;
}

/** A recorded function: our own list of typed ops, in an order in which it can run. */
export interface Program {
  readonly name: string;
  readonly ops: readonly Op[];
  /** `Input` values: the arguments' leaves, then the captured tensors. */
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
}

/** Name of an op in a lowered graph; TensorFlow's messages mention it, and `opOfNode` finds the op again. */
export function nodeName(op: Op): string {
  return `${op.type.replace(/[^A-Za-z0-9.]/g, '')}_${op.id}`;
}

/** The op that a node name of a message belongs to. */
export function opOfNode(program: Program, message: string): Op | undefined {
  for (const match of message.matchAll(/[A-Za-z0-9.]+_(\d+)/g)) {
    const op = program.ops.find((candidate) => candidate.id === Number(match[1]) && nodeName(candidate) === match[0]);
    if (op !== undefined) return op;
  }
  return undefined;
}
