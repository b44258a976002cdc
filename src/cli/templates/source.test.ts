import { instantiatePlugin } from 'alambic/plugin';
import { describe, expect, it } from 'vitest';
import plugin from './source.ts';

describe('my-source', () => {
  it('has one label and one image for each item', async () => {
    const source = await instantiatePlugin(plugin, { items: 10, size: 8 }).open();
    expect(source.labels).toEqual(['level', 'upright']);
    expect(new Set(source.items.map(({ id }) => id)).size).toBe(10);
    const { data, height, width, channels } = await source.read(0);
    expect([height, width, channels, data.length]).toEqual([8, 8, 1, 64]);
    // Level stripes: every row is of one value.
    for (let row = 0; row < 8; row++) expect(new Set(data.slice(row * 8, row * 8 + 8)).size).toBe(1);
  });
});
