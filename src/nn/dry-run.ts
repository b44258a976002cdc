import type { Tensor } from '@tensorflow/tfjs-core';
import { trace } from '../engine/capture.ts';
import { engine } from '../engine/engine.ts';
import type { Program, Value } from '../engine/program/program.ts';
import { countMacs } from './macs.ts';
import type { BufferSpec, Module, ParameterSpec, Shape, TapSpec } from './module.ts';
import { DescribingPass } from './scope.ts';

/** What a dry run finds out about a module. */
export interface DryRun {
  readonly outputShape: Shape;
  readonly parameters: readonly ParameterSpec[];
  readonly buffers: readonly BufferSpec[];
  readonly taps: readonly TapSpec[];
  /** Multiply-accumulates of one sample by the parameter they are spent on; '' for products of two activations. */
  readonly macs: ReadonlyMap<string, number>;
  readonly program: Program;
}

/** Runs a module over symbols in mode `infer`: no value is computed. */
export function dryRun(name: string, module: Module, inputShape: Shape): DryRun {
  const pass = new DescribingPass();
  const symbols = new Map<Value, string>();
  const { program, result } = trace(name, [{ shape: inputShape }], (x) => {
    const output = module.call(pass.root, x!);
    for (const [parameter, { symbol }] of pass.declared) symbols.set(recordedValue(symbol), parameter);
    return {
      outputShape: [...output.shape],
      taps: [...pass.taps].map(([tap, value]) => ({ name: tap, shape: [...value.shape] })),
    };
  });
  const parameters: ParameterSpec[] = [];
  const buffers: BufferSpec[] = [];
  for (const [parameter, { shape, init, role }] of pass.declared) {
    if (role === undefined) buffers.push({ name: parameter, shape, init });
    else parameters.push({ name: parameter, shape, init, role });
  }
  return { ...result, parameters, buffers, macs: countMacs(program, symbols, inputShape[0] ?? 1), program };
}

function recordedValue(symbol: Tensor): Value {
  const { backend, binding } = engine();
  return binding.valueOf(backend.getInputTensorIds([symbol])[0]!);
}
