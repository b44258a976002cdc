import { instantiatePlugin, type RunEvent } from 'alambic/plugin';
import { describe, expect, it } from 'vitest';
import plugin from './callback.ts';

describe('my-callback', () => {
  it('warns once after the loss has grown for so many epochs', () => {
    const heard: RunEvent[] = [];
    const callback = instantiatePlugin(plugin, { epochs: 2 }, { events: { on: (event) => void heard.push(event) } });
    for (const [epoch, loss] of [3, 2, 2.5, 2.6, 2.7].entries()) {
      void callback.on({ type: 'epoch-end', stage: 'student', epoch, metrics: { 'train/loss': loss }, seconds: 1 });
    }
    expect(heard).toEqual([
      { type: 'warning', code: 'LOSS_GROWS', message: 'train/loss of stage "student" has grown for 2 epochs, to 2.6' },
    ]);
  });
});
