import { z } from 'zod';
import type { Role } from '../nn/module.ts';

const ROLES = [
  'kernel',
  'depthwise-kernel',
  'bias',
  'norm',
  'embedding',
  'token',
  'position',
  'scale',
] as const satisfies readonly Role[];

/** Roles whose parameters decay unless a recipe says otherwise: weights that multiply features, and nothing that shifts or scales them. */
export const DECAY_ROLES: readonly Role[] = ['kernel', 'depthwise-kernel', 'embedding'];

/** Option `rate`, which every optimizer has. */
export const rateOption = () =>
  z.number().positive().meta({ description: 'learning rate that schedule and groups multiply' });

/** Option `decay`. */
export const decayOption = (byDefault: number, how: string) =>
  z
    .number()
    .nonnegative()
    .default(byDefault)
    .meta({ description: `weight decay, ${how}` });

/** Option `decayRoles`. */
export const decayRolesOption = () =>
  z
    .array(z.enum(ROLES))
    .default([...DECAY_ROLES])
    .meta({ description: 'roles of the parameters that decay; by default no bias, norm, token, position or scale' });

/** Weight decay of a parameter: `amount` where its group and its role have decay, else 0. */
export function decayFor(
  role: Role,
  decay: boolean,
  { amount, roles }: { amount: number; roles: readonly Role[] },
): number {
  return decay && roles.includes(role) ? amount : 0;
}
