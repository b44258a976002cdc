import { instantiatePlugin } from 'alambic/plugin';
import { describe, expect, it } from 'vitest';
import plugin from './metric.ts';

describe('my-metric', () => {
  it('counts the labels that lead by the margin, over all batches, without the unlabelled', () => {
    const metric = instantiatePlugin(plugin, { margin: 1 });
    const batch = (logits: number[], labels: number[]) =>
      metric.update({
        logits: Float32Array.from(logits),
        labels: Int32Array.from(labels),
        classes: 2,
        losses: new Float32Array(labels.length),
      });
    batch([3, 1, 3, 2.5], [0, 0]);
    batch([0, 2, 9, 0], [1, -1]);
    expect(metric.result()).toEqual({ 'my-metric': 2 / 3 });
  });
});
