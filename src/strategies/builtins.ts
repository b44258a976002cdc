import type { Plugin } from '../plugin-host/contract.ts';
import distillation from './distillation/distillation.ts';
import supervised from './supervised.ts';

/** The strategies that come with alambic. */
export const STRATEGY_PLUGINS: readonly Plugin[] = [supervised, distillation] as unknown as readonly Plugin[];
