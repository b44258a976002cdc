import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  resolve: {
    alias: {
      'alambic/plugin': fileURLToPath(new URL('./src/plugin.ts', import.meta.url)),
    },
  },
  test: {
    include: ['test/**/*.test.ts', 'plugins/**/*.test.ts'],
    // One process loads the 800 MB TensorFlow library once for all test files; two heavy files at once would fight for the cores.
    pool: 'forks',
    isolate: false,
    maxWorkers: 1,
    testTimeout: 120_000,
    hookTimeout: 600_000,
    reporters: ['default', './test/closing-line.ts'],
  },
});
