import { AlambicError } from '../errors.ts';
import type { ParameterSpec, Shape } from './module.ts';

/** What decides a parameter's layout. */
export type LayoutSpec = Pick<ParameterSpec, 'shape' | 'role'>;

/** Axes of ours in torch's order; undefined = the same layout. */
function torchAxes({ shape, role }: LayoutSpec): readonly number[] | undefined {
  if (role === 'depthwise-kernel' && shape.length === 4) return [2, 3, 0, 1];
  if (role !== 'kernel') return undefined;
  if (shape.length === 4) return [3, 2, 0, 1];
  if (shape.length === 2) return [1, 0];
  return undefined;
}

/**
 * Shape of a parameter in torch: kernels [kh,kw,in,out] -> [out,in,kh,kw], depthwise kernels [kh,kw,C,1] -> [C,1,kh,kw], dense kernels
 * [in,out] -> [out,in], all others the same.
 */
export function torchShape(spec: LayoutSpec): Shape {
  return torchAxes(spec)?.map((axis) => spec.shape[axis]!) ?? spec.shape;
}

/** Values of a parameter in torch's layout. See `torchShape`; a buffer has the same layout in both. */
export function toTorchLayout(spec: LayoutSpec, values: Float32Array): { shape: Shape; data: Float32Array } {
  checkLength(spec, values);
  const axes = torchAxes(spec);
  if (axes === undefined) return { shape: spec.shape, data: values };
  return { shape: torchShape(spec), data: permute(values, spec.shape, axes) };
}

/** Values of a parameter in our layout, from torch's; the inverse of `toTorchLayout`. `spec.shape` is ours. */
export function fromTorchLayout(spec: LayoutSpec, values: Float32Array): Float32Array {
  checkLength(spec, values);
  const axes = torchAxes(spec);
  if (axes === undefined) return values;
  return permute(
    values,
    torchShape(spec),
    spec.shape.map((_, axis) => axes.indexOf(axis)),
  );
}

function checkLength({ shape }: LayoutSpec, values: Float32Array): void {
  const expected = shape.reduce((product, size) => product * size, 1);
  if (values.length !== expected) {
    throw new AlambicError('SHAPE_MISMATCH', `expected ${expected} values for shape [${shape}], got ${values.length}`);
  }
}

/** Axis `i` of the result is axis `axes[i]` of the source. */
function permute(values: Float32Array, shape: Shape, axes: readonly number[]): Float32Array {
  const strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((product, size) => product * size, 1));
  const sizes = axes.map((axis) => shape[axis]!);
  const steps = axes.map((axis) => strides[axis]!);
  const result = new Float32Array(values.length);
  const index = new Array<number>(sizes.length).fill(0);
  let source = 0;
  for (let target = 0; target < result.length; target++) {
    result[target] = values[source]!;
    for (let axis = sizes.length - 1; axis >= 0; axis--) {
      source += steps[axis]!;
      if (++index[axis]! < sizes[axis]!) break;
      source -= steps[axis]! * sizes[axis]!;
      index[axis] = 0;
    }
  }
  return result;
}

/**
 * Names of the step counters that torch keeps beside each BatchNorm (`num_batches_tracked`, int64 scalars), which a strict
 * `load_state_dict` expects.
 */
export function torchCounters(buffers: readonly { readonly name: string }[]): string[] {
  return buffers
    .filter(({ name }) => name.endsWith('running_mean'))
    .map(({ name }) => name.replace(/running_mean$/, 'num_batches_tracked'));
}
