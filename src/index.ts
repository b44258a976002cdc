/**
 * The library: run recipes from a program. Plugin authors import `alambic/plugin` instead.
 *
 * @example
 * import { createHost, loadRecipe, runRecipe } from 'alambic';
 * const { summary } = await runRecipe(await loadRecipe('kd.yaml', {}, createHost()));
 */
export { type Captured, capture, trace } from './engine/capture.ts';
export { type Engine, type EngineMode, type EngineOptions, engine, openEngine } from './engine/engine.ts';
export * as kernels from './engine/kernels/index.ts';
export { deriveKey, type Key, makeKey } from './engine/random.ts';
export { AlambicError } from './errors.ts';
export { applyModule, describeModule, initialise } from './nn/describe.ts';
export type * from './nn/module.ts';
export { createHost } from './plugin-host/builtins.ts';
export type * from './plugin-host/contract.ts';
export { definePlugin } from './plugin-host/define.ts';
export { PluginHost } from './plugin-host/host.ts';
export { type LoadedRecipe, loadRecipe, parseRecipe } from './recipe/load.ts';
export { type CheckReport, checkRecipe } from './train/check.ts';
export { evaluateModels } from './train/evaluate-models.ts';
export { openModel, Predictor } from './train/predict.ts';
export { type RunOptions, type RunResult, runRecipe } from './train/run.ts';
