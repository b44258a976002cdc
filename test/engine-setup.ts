import { openEngine } from '../src/engine/engine.ts';

/** Opens the engine for a test file: `beforeAll(openTestEngine)`. */
export async function openTestEngine(): Promise<void> {
  await openEngine({ device: 'cpu', mode: 'graph' });
}
