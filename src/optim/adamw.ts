import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import type { Role, Tensors } from '../nn/module.ts';
import type { Optimizer, UpdateContext } from '../plugin-host/contract.ts';
import { definePlugin } from '../plugin-host/define.ts';
import { TOKEN } from '../plugin-host/tokens.ts';
import { decayFor, decayOption, decayRolesOption, rateOption } from './decay.ts';

const options = z.strictObject({
  rate: rateOption(),
  beta1: z.number().gt(0).lt(1).default(0.9).meta({ description: 'share of the mean gradient that stays, 0..1' }),
  beta2: z
    .number()
    .gt(0)
    .lt(1)
    .default(0.999)
    .meta({ description: 'share of the mean squared gradient that stays, 0..1' }),
  epsilon: z.number().positive().default(1e-8).meta({ description: 'added to the root of the mean square' }),
  decay: decayOption(0.01, 'times the rate, off the value itself (decoupled)'),
  decayRoles: decayRolesOption(),
});

type Options = z.output<typeof options>;

/**
 * Adam with decoupled weight decay (arXiv 1711.05101), as `torch.optim.AdamW`:
 * `w ← w(1 − ηλ) − η m̂ / (√v̂ + ε)` with `m̂ = m / (1 − β₁ᵗ)`, `v̂ = v / (1 − β₂ᵗ)`.
 *
 * Slots `mean`, `square` and `step` (float32 scalar): each parameter counts its own updates, so the first step of one that was unfrozen
 * late has the size of its rate. A schedule that moves the momentum moves β₁.
 *
 * @example
 * optimizer: { use: adamw, rate: 1e-3, decay: 0.05 }
 */
@injectable()
export class AdamW implements Optimizer {
  readonly baseRate: number;
  readonly #options: Options;

  constructor(@inject(TOKEN.Options) options: Options) {
    this.#options = options;
    this.baseRate = options.rate;
  }

  decayOf(role: Role, decay: boolean): number {
    return decayFor(role, decay, { amount: this.#options.decay, roles: this.#options.decayRoles });
  }

  init(_name: string, value: Tensor): Tensors {
    return { mean: tf.zerosLike(value), square: tf.zerosLike(value), step: tf.scalar(0) };
  }

  update(
    _name: string,
    value: Tensor,
    gradient: Tensor,
    slots: Tensors,
    context: UpdateContext,
  ): { value: Tensor; slots: Tensors } {
    const { beta1, beta2, epsilon } = this.#options;
    const { rate, momentum } = context;
    const { mean, square, step } = slots as { mean: Tensor; square: Tensor; step: Tensor };
    return tf.tidy(() => {
      const nextStep = tf.add(step, 1);
      const logBeta1 = momentum === undefined ? tf.scalar(Math.log(beta1)) : tf.log(momentum);
      const share1 = momentum === undefined ? tf.scalar(1 - beta1) : tf.sub(1, momentum);
      // 1 − βᵗ by expm1: written out in float32 the first corrections of β₂ = 0.999 would be off by 1e-5.
      const negated1 = tf.expm1(tf.mul(nextStep, logBeta1));
      const root2 = tf.sqrt(tf.neg(tf.expm1(tf.mul(nextStep, Math.log(beta2)))));

      const nextMean = tf.add(mean, tf.mul(tf.sub(gradient, mean), share1));
      const nextSquare = tf.add(tf.mul(square, beta2), tf.mul(tf.square(gradient), 1 - beta2));
      // η m̂ / (√v̂ + ε) with both corrections moved into scalars, which leaves two passes less over the parameter.
      const negatedRate = tf.div(tf.mul(rate, root2), negated1);
      const direction = tf.div(nextMean, tf.add(tf.sqrt(nextSquare), tf.mul(root2, epsilon)));
      const decay = this.decayOf(context.role, context.decay);
      const kept = decay === 0 ? value : tf.mul(value, tf.sub(1, tf.mul(rate, decay)));
      return {
        value: tf.add(kept, tf.mul(direction, negatedRate)),
        slots: { mean: nextMean, square: nextSquare, step: nextStep },
      };
    });
  }
}

export default definePlugin({
  name: 'adamw',
  kind: 'optimizer',
  apiVersion: 1,
  description: 'Adam with decoupled weight decay.',
  options,
  implementation: AdamW,
});
