import type { Tensor } from '@tensorflow/tfjs-core';
import type { Module, Scope } from '../module.ts';

/**
 * Modules one after another. Given a list, they are named `0`, `1`, … as in torch; given a record, by its keys.
 *
 * @example
 * const projector = new Sequential([new Dense(128), new BatchNorm(), new Activation('relu'), new Dense(64)]);
 */
export class Sequential implements Module {
  readonly #modules: readonly (readonly [name: string, module: Module])[];

  constructor(modules: readonly Module[] | Readonly<Record<string, Module>>) {
    this.#modules = Object.entries(modules);
  }

  call(scope: Scope, x: Tensor): Tensor {
    let y = x;
    for (const [name, module] of this.#modules) y = module.call(scope.child(name), y);
    return scope.tap('', y);
  }
}
