import adamw from './adamw.ts';
import constant from './schedules/constant.ts';
import cosine from './schedules/cosine.ts';
import multiStep from './schedules/multi-step.ts';
import oneCycle from './schedules/one-cycle.ts';
import sgd from './sgd.ts';

/** Built-in plugins of the kind `optimizer`. */
export const OPTIMIZER_PLUGINS = [adamw, sgd] as const;

/** Built-in plugins of the kind `schedule`. */
export const SCHEDULE_PLUGINS = [constant, cosine, multiStep, oneCycle] as const;
