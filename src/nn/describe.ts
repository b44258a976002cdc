import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { type Key, makeKey } from '../engine/random.ts';
import { AlambicError } from '../errors.ts';
import { dryRun } from './dry-run.ts';
import type {
  Backbone,
  DepthGroup,
  Mode,
  ModelDescription,
  ModelState,
  Module,
  ParameterSpec,
  Shape,
  Tensors,
} from './module.ts';
import { ApplyingPass, coversName } from './scope.ts';

/** What a description says besides what the dry run finds. */
export interface DescriptionMeta {
  readonly architecture?: string;
  /** Where given, each parameter must lie in exactly one. */
  readonly depthGroups?: readonly DepthGroup[];
  readonly classifier?: string;
}

function isBackbone(module: Module): module is Backbone {
  return 'depthGroups' in module && 'inputSize' in module && 'architecture' in module;
}

/**
 * Describes a module by a dry run: parameters, buffers, taps, shapes and cost, with nothing computed. The engine must be open.
 *
 * @param inputShape Batch included; a backbone's own input size with a batch of 1 where left out.
 * @throws AlambicError DUPLICATE_PARAMETER, SHAPE_MISMATCH; UNGROUPED_PARAMETER where a parameter lies in no depth group or in two.
 * @example
 * const { parameterCount, macs } = describeModule(resnet('resnet18', { inputSize: [224, 224, 3], classes: 1000 }));
 */
export function describeModule(module: Module, inputShape?: Shape, meta: DescriptionMeta = {}): ModelDescription {
  const backbone = isBackbone(module) ? module : undefined;
  const shape = inputShape ?? (backbone === undefined ? undefined : [1, ...backbone.inputSize]);
  if (shape === undefined) {
    throw new AlambicError('INPUT_SHAPE_MISSING', 'expected the shape of the input, batch included', {
      hint: 'Only backbones know their own input size; pass it as the second argument.',
    });
  }
  const architecture = meta.architecture ?? backbone?.architecture ?? 'module';
  const depthGroups = meta.depthGroups ?? backbone?.depthGroups ?? [];
  const { parameters, buffers, taps, outputShape, macs } = dryRun(architecture, module, shape);
  if (depthGroups.length > 0) {
    for (const { name } of parameters) findDepthGroup(architecture, depthGroups, name);
    checkDepthGroups(architecture, depthGroups, parameters);
  }
  return {
    architecture,
    inputShape: shape,
    outputShape,
    parameters,
    buffers,
    taps,
    macs: [...macs.values()].reduce((sum, count) => sum + count, 0),
    parameterCount: parameters.reduce((sum, parameter) => sum + elementCount(parameter.shape), 0),
    depthGroups,
    classifier: meta.classifier ?? backbone?.classifier ?? '',
  };
}

/** Number of values in a tensor of this shape. */
export function elementCount(shape: Shape): number {
  return shape.reduce((product, size) => product * size, 1);
}

function findDepthGroup(architecture: string, groups: readonly DepthGroup[], parameter: string): DepthGroup {
  const found = groups.filter(({ prefixes }) => prefixes.some((prefix) => coversName(prefix, parameter)));
  if (found.length === 1) return found[0]!;
  const names = (found.length === 0 ? groups : found).map(({ name }) => name).join(', ');
  throw new AlambicError(
    'UNGROUPED_PARAMETER',
    found.length === 0
      ? `parameter "${parameter}" of ${architecture} lies in no depth group`
      : `parameter "${parameter}" of ${architecture} lies in ${found.length} depth groups: ${names}`,
    {
      hint: `Each parameter must lie in exactly one of the backbone's depthGroups${found.length === 0 ? `: ${names}` : ''}.`,
    },
  );
}

function checkDepthGroups(
  architecture: string,
  groups: readonly DepthGroup[],
  parameters: readonly ParameterSpec[],
): void {
  for (const group of groups) {
    const unused = group.prefixes.find((prefix) => !parameters.some(({ name }) => coversName(prefix, name)));
    if (unused === undefined) continue;
    throw new AlambicError(
      'UNGROUPED_PARAMETER',
      `depth group "${group.name}" of ${architecture} names "${unused}", where no parameter lies`,
      { hint: "Correct the prefix in the backbone's depthGroups." },
    );
  }
}

/**
 * Name of the depth group in which a parameter lies.
 *
 * @throws AlambicError UNGROUPED_PARAMETER where it lies in none or in two.
 */
export function depthGroupOf(
  description: Pick<ModelDescription, 'architecture' | 'depthGroups'>,
  parameter: string,
): string {
  return findDepthGroup(description.architecture, description.depthGroups, parameter).name;
}

/**
 * First values of a network's parameters and buffers. Each is a function of (seed, its name) alone: adding a layer does not change the
 * others. The caller disposes them.
 *
 * @throws AlambicError SHAPE_MISMATCH where an initialiser gives another shape than was asked for.
 */
export function initialise(
  description: Pick<ModelDescription, 'parameters' | 'buffers'>,
  seed: number,
): { params: Tensors; buffers: Tensors } {
  const make = (specs: readonly Omit<ParameterSpec, 'role'>[]): Tensors =>
    Object.fromEntries(
      specs.map(({ name, shape, init }) => {
        const value = tf.tidy(() => init(shape, makeKey(seed, name)));
        if (value.shape.join() !== shape.join() || value.dtype !== 'float32') {
          throw new AlambicError(
            'SHAPE_MISMATCH',
            `the initialiser of "${name}" gave ${value.dtype} [${value.shape}], expected float32 [${shape}]`,
          );
        }
        return [name, value];
      }),
    );
  return { params: make(description.parameters), buffers: make(description.buffers) };
}

export interface ApplyOptions {
  readonly mode: Mode;
  /** Mode per sub-tree by dotted prefix, the longest match wins; '' is the root. */
  readonly modes?: Readonly<Record<string, Mode>>;
  /** Base of the pass's random numbers; needed in mode `train` where something random runs. */
  readonly key?: Key;
}

/** What a forward pass gives. */
export interface Applied {
  readonly output: Tensor;
  /** Intermediate tensors by name, in the order of the pass. */
  readonly taps: Map<string, Tensor>;
  /** New values of buffers that modules in mode `train` moved; all other buffers stay as they are. */
  readonly updates: Tensors;
}

/**
 * Runs a module over given values: a pure function. Call it inside `capture` or `tf.tidy`, which own the intermediate tensors.
 *
 * @throws AlambicError MISSING_PARAMETER, SHAPE_MISMATCH, UNKNOWN_MODULE (a prefix of `modes`), RANDOM_KEY_MISSING.
 * @example
 * const { output, updates } = applyModule(network, state, images, { mode: 'train', modes: { layer1: 'infer' }, key });
 */
export function applyModule(module: Module, state: ModelState, x: Tensor, options: ApplyOptions): Applied {
  const pass = new ApplyingPass(state.params, state.buffers, options);
  const output = module.call(pass.root, x);
  pass.finish();
  return { output, taps: pass.taps, updates: pass.updates };
}
