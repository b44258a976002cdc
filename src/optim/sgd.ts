import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import { AlambicError } from '../errors.ts';
import type { Role, Tensors } from '../nn/module.ts';
import type { Optimizer, UpdateContext } from '../plugin-host/contract.ts';
import { definePlugin } from '../plugin-host/define.ts';
import { TOKEN } from '../plugin-host/tokens.ts';
import { decayFor, decayOption, decayRolesOption, rateOption } from './decay.ts';

const options = z
  .strictObject({
    rate: rateOption(),
    momentum: z
      .number()
      .min(0)
      .lt(1)
      .default(0.9)
      .meta({ description: 'share of the velocity that stays, 0..1; 0: none' }),
    nesterov: z.boolean().default(false).meta({ description: 'look ahead along the velocity; needs momentum' }),
    decay: decayOption(0, 'added to the gradient (L2)'),
    decayRoles: decayRolesOption(),
  })
  .refine(({ nesterov, momentum }) => !nesterov || momentum > 0, {
    message: 'nesterov needs a momentum above 0',
    path: ['nesterov'],
  });

type Options = z.output<typeof options>;

/**
 * Stochastic gradient descent with momentum, Nesterov's variant and L2 decay, as `torch.optim.SGD` with dampening 0:
 * `v ← μv + (g + λw)`, `w ← w − ηv`, or with Nesterov `w ← w − η(g + λw + μv)`.
 *
 * Slot `velocity`, zero at first, which makes the first velocity the first gradient.
 *
 * @example
 * optimizer: { use: sgd, rate: 0.1, momentum: 0.9, nesterov: true, decay: 5e-4 }
 */
@injectable()
export class Sgd implements Optimizer {
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
    return this.#options.momentum > 0 ? { velocity: tf.zerosLike(value) } : {};
  }

  update(
    name: string,
    value: Tensor,
    gradient: Tensor,
    slots: Tensors,
    context: UpdateContext,
  ): { value: Tensor; slots: Tensors } {
    const velocity = slots['velocity'];
    if (velocity === undefined && context.momentum !== undefined) {
      throw new AlambicError('PRECONDITION', `the schedule moves the momentum, but sgd has none (parameter ${name})`, {
        hint: 'Set `momentum: 0.9` on sgd, or `cycleMomentum: false` on the schedule.',
      });
    }
    return tf.tidy(() => {
      // Sums of three are one op: with momentum and decay a parameter costs five.
      const decay = this.decayOf(context.role, context.decay);
      const slope = decay === 0 ? [gradient] : [gradient, tf.mul(value, decay)];
      if (velocity === undefined) return { value: stepBy(value, sum(slope), context.rate), slots: {} };
      const momentum = context.momentum ?? tf.scalar(this.#options.momentum);
      const next = sum([...slope, tf.mul(velocity, momentum)]);
      const direction = this.#options.nesterov ? sum([...slope, tf.mul(next, momentum)]) : next;
      return { value: stepBy(value, direction, context.rate), slots: { velocity: next } };
    });
  }
}

function sum(tensors: readonly Tensor[]): Tensor {
  const [first, second] = tensors as [Tensor, Tensor];
  if (tensors.length === 1) return first;
  return tensors.length === 2 ? tf.add(first, second) : tf.addN([...tensors]);
}

function stepBy(value: Tensor, direction: Tensor, rate: Tensor): Tensor {
  return tf.sub(value, tf.mul(direction, rate));
}

export default definePlugin({
  name: 'sgd',
  kind: 'optimizer',
  apiVersion: 1,
  description: 'Stochastic gradient descent with momentum, Nesterov and L2 decay.',
  options,
  implementation: Sgd,
});
