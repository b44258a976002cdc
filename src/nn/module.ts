import type { Tensor } from '@tensorflow/tfjs-core';
import type { Key } from '../engine/random.ts';

export type Shape = readonly number[];

/**
 * What a parameter is. Decides weight decay, LARS exclusion and the layout change on export.
 * `kernel`: [kh,kw,in,out] or [in,out]; `depthwise-kernel`: [kh,kw,C,1].
 */
export type Role = 'kernel' | 'depthwise-kernel' | 'bias' | 'norm' | 'embedding' | 'token' | 'position' | 'scale';

/**
 * How a sub-tree runs. `train`: batch statistics, running statistics move, dropout on. `infer`: running statistics, nothing random.
 * `batch-stats`: batch statistics, running statistics stay, dropout off.
 */
export type Mode = 'train' | 'infer' | 'batch-stats';

/** Makes the first value of a parameter or buffer from a shape and a random key; pure. */
export type Init = (shape: Shape, key: Key) => Tensor;

/** A layer or network: a static description. Parameters and buffers are read from the scope, never stored in it. */
export interface Module<In = Tensor, Out = Tensor> {
  call(scope: Scope, x: In): Out;
}

/** What a module sees of the world: one per sub-module; names join to dotted paths equal to timm's. */
export interface Scope {
  /** Dotted path of this scope, '' at the root. */
  readonly path: string;
  readonly mode: Mode;
  /** A trainable parameter of this scope. */
  param(name: string, shape: Shape, init: Init, role: Role): Tensor;
  /** A value that is state but not trained (BatchNorm statistics, a queue). */
  buffer(name: string, shape: Shape, init: Init): Tensor;
  /** The buffer's value after this step. Ignored in the modes `infer` and `batch-stats`. */
  update(name: string, value: Tensor): void;
  /** The scope of a sub-module. */
  child(name: string): Scope;
  /** Publishes an intermediate tensor as `path.name` (the path itself for `''`) and returns it unchanged. */
  tap(name: string, value: Tensor): Tensor;
  /** A key of counter-based random numbers, a function of (seed, step, path, purpose). */
  random(purpose: string): Key;
}

/** Parameters that lie at one depth of a backbone, from the input (first) to the head (last). */
export interface DepthGroup {
  readonly name: string;
  /** Dotted name prefixes: `layer1.0` matches `layer1.0.conv1.weight` and not `layer1.01`. */
  readonly prefixes: readonly string[];
}

/** How images must be prepared for a network; travels with every checkpoint and export. */
export interface Preprocessing {
  /** [H, W, C]. */
  readonly inputSize: readonly [number, number, number];
  /** Per channel, of values in 0..1. */
  readonly mean: readonly number[];
  readonly std: readonly number[];
  readonly interpolation: 'nearest' | 'bilinear' | 'bicubic';
  /** Share of the shorter side that the centre crop keeps. @default 1 */
  readonly cropShare: number;
}

/** A network that classifies images [N,H,W,C] -> logits [N,classes], and says how it is built up. */
export interface Backbone extends Module {
  readonly architecture: string;
  readonly inputSize: readonly [number, number, number];
  readonly classes: number;
  readonly depthGroups: readonly DepthGroup[];
  /** Name prefix of the classifier's parameters, `fc` or `classifier`; dropped when the number of classes changes. */
  readonly classifier: string;
  /** Tap with the pooled features before the classifier. */
  readonly featureTap: string;
}

export interface ParameterSpec {
  readonly name: string;
  readonly shape: Shape;
  readonly role: Role;
  readonly init: Init;
}

export interface BufferSpec {
  readonly name: string;
  readonly shape: Shape;
  readonly init: Init;
}

export interface TapSpec {
  readonly name: string;
  readonly shape: Shape;
}

/** Everything known of a network without running it: found by a dry run over symbolic tensors. */
export interface ModelDescription {
  readonly architecture: string;
  readonly inputShape: Shape;
  readonly outputShape: Shape;
  readonly parameters: readonly ParameterSpec[];
  readonly buffers: readonly BufferSpec[];
  /** In the order of the forward pass. */
  readonly taps: readonly TapSpec[];
  /** Multiply-accumulates of one sample's forward pass (convolutions and matrix products, as timm and fvcore count). */
  readonly macs: number;
  readonly parameterCount: number;
  readonly depthGroups: readonly DepthGroup[];
  readonly classifier: string;
}

/** Tensors by dotted name. */
export type Tensors = Record<string, Tensor>;

/** A network's values. */
export interface ModelState {
  readonly params: Tensors;
  readonly buffers: Tensors;
}
