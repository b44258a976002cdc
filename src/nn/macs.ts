import type { Op, Program, Value } from '../engine/program/program.ts';

const sizeOf = (shape: readonly number[] | undefined) => (shape ?? []).reduce((product, size) => product * size, 1);

/** Multiply-accumulates of an op over the whole batch; 0 for all that are neither convolutions nor matrix products. */
function macsOf(op: Op): number {
  const output = sizeOf(op.outputs[0]?.shape);
  const [a, b] = op.inputs.map((input) => input.shape ?? []);
  switch (op.type) {
    // kernel [kh,kw,in,out]
    case 'Conv2D':
      return output * sizeOf(b!.slice(0, 3));
    // kernel [kh,kw,C,1]
    case 'DepthwiseConv2dNative':
      return output * sizeOf(b!.slice(0, 2));
    case 'MatMul':
    case '_FusedMatMul':
      return output * a!.at(attribute(op, 'transpose_a') ? -2 : -1)!;
    case 'BatchMatMulV2':
      return output * a!.at(attribute(op, 'adj_x') ? -2 : -1)!;
    default:
      return 0;
  }
}

function attribute(op: Op, name: string): boolean {
  return op.attrs.find((attr) => attr.name === name)?.value === true;
}

/** The named value that `value` is, or is made of (a standardised or reshaped kernel). */
function sourceOf(value: Value, names: ReadonlyMap<Value, string>): string | undefined {
  const seen = new Set<Value>();
  const queue = [value];
  for (const next of queue) {
    const name = names.get(next);
    if (name !== undefined) return name;
    for (const input of next.op.inputs)
      if (!seen.has(input)) {
        seen.add(input);
        queue.push(input);
      }
  }
  return undefined;
}

/** Whether `value` is computed from the network's input rather than from parameters alone. */
function dependsOnInput(value: Value, input: Value | undefined, known: Map<Value, boolean>): boolean {
  if (value === input) return true;
  let depends = known.get(value);
  if (depends === undefined) {
    depends = value.op.inputs.some((source) => dependsOnInput(source, input, known));
    known.set(value, depends);
  }
  return depends;
}

/**
 * Multiply-accumulates of one sample by parameter, convolutions and matrix products only, bias and everything element-wise left out (as
 * timm and fvcore count). Products of two activations (attention) stand under ''.
 */
export function countMacs(program: Program, names: ReadonlyMap<Value, string>, batch: number): Map<string, number> {
  const counts = new Map<string, number>();
  const known = new Map<Value, boolean>();
  const [input] = program.inputs;
  for (const op of program.ops) {
    const macs = macsOf(op);
    if (macs === 0) continue;
    const weight = op.inputs.find((value) => !dependsOnInput(value, input, known));
    const name = weight === undefined ? '' : (sourceOf(weight, names) ?? '');
    counts.set(name, (counts.get(name) ?? 0) + macs / batch);
  }
  return counts;
}
