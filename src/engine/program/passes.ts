import type { Op, Program, Value } from './program.ts';

/** A program to program transform that keeps inputs, outputs and meaning. */
export type Pass = (program: Program) => Program;

/** Rebuilds a program with some values replaced; ops must stay in order. */
function rewrite(program: Program, visit: (op: Op, mapped: (value: Value) => Value) => Op | readonly Value[]): Program {
  const replaced = new Map<Value, Value>();
  const mapped = (value: Value) => replaced.get(value) ?? value;
  const ops: Op[] = [];
  for (const op of program.ops) {
    const result = visit(op, mapped);
    if (Array.isArray(result)) {
      op.outputs.forEach((output, i) => {
        replaced.set(output, result[i]!);
      });
      continue;
    }
    const kept = result as Op;
    ops.push(kept);
    if (kept !== op) {
      op.outputs.forEach((output, i) => {
        replaced.set(output, kept.outputs[i]!);
      });
    }
  }
  return { ...program, ops, outputs: program.outputs.map(mapped) };
}

function withInputs(op: Op, inputs: readonly Value[]): Op {
  if (inputs.every((value, i) => value === op.inputs[i])) return op;
  const outputs: Value[] = [];
  const copy: Op = { ...op, inputs, outputs };
  for (const output of op.outputs) outputs.push({ ...output, op: copy });
  return copy;
}

/** Leaves out ops that no output needs. Inputs stay: they are the function's signature. */
export const removeDeadOps: Pass = (program) => {
  const needed = new Set<Op>();
  const visit = (op: Op) => {
    const stack = [op];
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      if (needed.has(next)) continue;
      needed.add(next);
      for (const input of next.inputs) stack.push(input.op);
    }
  };
  for (const output of program.outputs) visit(output.op);
  for (const op of program.ops) if (op.stateful && op.type !== 'Input') visit(op);
  return { ...program, ops: program.ops.filter((op) => op.type === 'Input' || needed.has(op)) };
};

const numbers = new WeakMap<Op, string>();

function constantKey(op: Op): string {
  let key = numbers.get(op);
  if (key === undefined) {
    const output = op.outputs[0]!;
    key = `Const ${output.dtype} [${output.shape}] ${Buffer.from(op.constant ?? []).toString('latin1')}`;
    numbers.set(op, key);
  }
  return key;
}

/** Constants above this size are not compared: large ones are rare, and never twice the same. */
const LARGEST_COMPARED = 4096;

/**
 * Merges ops that compute the same from the same inputs. tfjs makes an axis constant, a reshape or a broadcast anew each time, so a
 * recorded step has many of them.
 */
export const mergeEqualOps: Pass = (program) => {
  const seen = new Map<string, Op>();
  return rewrite(program, (original, mapped) => {
    const op = withInputs(original, original.inputs.map(mapped));
    if (op.stateful || op.type === 'Input') return op;
    if (op.type === 'Const' && (op.constant?.length ?? 0) > LARGEST_COMPARED) return op;
    const key =
      op.type === 'Const'
        ? constantKey(op)
        : `${op.type} ${op.inputs.map((value) => `${value.op.id}:${value.index}`).join(',')} ${JSON.stringify(op.attrs)}`;
    const first = seen.get(key);
    if (first !== undefined) return first.outputs;
    seen.set(key, op);
    return op;
  });
};

/** Whether two static shapes are known and equal. */
function sameShape(a: Value, b: Value): boolean {
  return (
    a.shape !== undefined &&
    b.shape !== undefined &&
    a.shape.length === b.shape.length &&
    a.shape.every((n, i) => n === b.shape![i] && n >= 0)
  );
}

function isConstantOf(value: Value, number: number): boolean {
  if (value.op.type === 'ZerosLike') return number === 0;
  if (value.op.type === 'OnesLike') return number === 1;
  if (value.op.type === 'Fill') return isConstantOf(value.op.inputs[1]!, number);
  if (value.op.type !== 'Const' || value.dtype !== 1) return false;
  const bytes = value.op.constant;
  if (bytes === undefined || bytes.length === 0 || bytes.length > LARGEST_COMPARED) return false;
  const floats = new Float32Array(bytes.slice().buffer);
  return floats.every((x) => x === number);
}

/** Removes what changes nothing: Identity, Reshape to the same shape, a cast to the same type, x + 0, x * 1. */
export const removeNoOps: Pass = (program) =>
  rewrite(program, (original, mapped) => {
    const op = withInputs(original, original.inputs.map(mapped));
    const [x, y] = op.inputs;
    const out = op.outputs[0];
    if (x === undefined || out === undefined) return op;
    switch (op.type) {
      case 'Identity':
      case 'Snapshot':
        return [x];
      case 'Reshape':
      case 'BroadcastTo':
      case 'Tile':
        return sameShape(x, out) ? [x] : op;
      case 'Cast':
        return x.dtype === out.dtype ? [x] : op;
      case 'AddV2':
      case 'Add':
        if (y !== undefined && isConstantOf(y, 0) && sameShape(x, out)) return [x];
        if (y !== undefined && isConstantOf(x, 0) && sameShape(y, out)) return [y];
        return op;
      case 'Mul':
        if (y !== undefined && isConstantOf(y, 1) && sameShape(x, out)) return [x];
        if (y !== undefined && isConstantOf(x, 1) && sameShape(y, out)) return [y];
        return op;
      default:
        return op;
    }
  });

/** The passes every program goes through, in order. */
export const STANDARD_PASSES: readonly Pass[] = [removeDeadOps, removeNoOps, mergeEqualOps, removeDeadOps];

export function runPasses(program: Program, passes: readonly Pass[] = STANDARD_PASSES): Program {
  return passes.reduce((current, pass) => pass(current), program);
}
