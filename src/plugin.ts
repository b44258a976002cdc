/** All that a plugin author imports: `import { definePlugin, … } from 'alambic/plugin'`. */
export * as tf from '@tensorflow/tfjs-core';
export { inject, injectable } from 'inversify';
export { z } from 'zod';
export type { DecodedImage, SampleInfo, Source } from './data/source.ts';
export { type MemorySourceInput, memorySource } from './data/sources/memory.ts';
export { openEngine } from './engine/engine.ts';
export * as kernels from './engine/kernels/index.ts';
export { deriveKey, type Key, makeKey } from './engine/random.ts';
export { AlambicError, type ErrorDetails, unknownName } from './errors.ts';
export { crossEntropy } from './losses/cross-entropy.ts';
export { kullbackLeibler } from './losses/kullback-leibler.ts';
export { meanSquaredError } from './losses/mean-squared-error.ts';
export { describeModule } from './nn/describe.ts';
export * as init from './nn/init.ts';
export * as layers from './nn/layers/index.ts';
export type {
  Backbone,
  DepthGroup,
  Init,
  Mode,
  ModelDescription,
  ModelState,
  Module,
  Role,
  Scope,
  Shape,
  Tensors,
} from './nn/module.ts';
export * from './plugin-host/contract.ts';
export { definePlugin } from './plugin-host/define.ts';
export { instantiatePlugin, type UseContext } from './plugin-host/host.ts';
export { type CreatePlugin, type PluginUse, TOKEN } from './plugin-host/tokens.ts';
export { type Use, useOf } from './plugin-host/use.ts';
