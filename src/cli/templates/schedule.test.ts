import { instantiatePlugin } from 'alambic/plugin';
import { describe, expect, it } from 'vitest';
import plugin from './schedule.ts';

describe('my-schedule', () => {
  it('goes in a straight line from 1 to final', () => {
    const schedule = instantiatePlugin(plugin, { final: 0.5 });
    expect([0, 2, 4, 9].map((step) => schedule.factor(step, 5, 5))).toEqual([1, 0.75, 0.5, 0.5]);
  });
});
