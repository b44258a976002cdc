import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';

/** Runs a module in a process of its own, since a process has one engine. */
function runAlone(code: string): { status: number | null; stdout: string; stderr: string } {
  const imports = `import { engine, openEngine } from ${JSON.stringify(new URL('../../src/engine/engine.ts', import.meta.url).href)};`;
  return spawnSync(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', imports + code], {
    encoding: 'utf8',
    timeout: 60_000,
  });
}

describe('opening, in a process of its own', () => {
  it('before it, engine() is ENGINE_CLOSED; failed ones leave it closed and can be followed by a good one', () => {
    const { status, stdout, stderr } = runAlone(`
      const codes = [];
      const closed = () => { try { engine(); } catch (error) { codes.push(error.code); } };
      closed();
      for (const device of ['tpu', 'gpu:99']) {
        await openEngine({ device }).catch((error) => codes.push(error.code));
        closed();
      }
      const [first, second] = await Promise.all([openEngine({ device: 'cpu' }), openEngine({ device: 'cpu' })]);
      process.stdout.write(JSON.stringify([...codes, first === second, engine() === first, first.device.type]));
    `);
    expect(stderr).toBe('');
    expect(JSON.parse(stdout)).toEqual([
      'ENGINE_CLOSED',
      'DEVICE_UNKNOWN',
      'ENGINE_CLOSED',
      'DEVICE_MISSING',
      'ENGINE_CLOSED',
      true,
      true,
      'CPU',
    ]);
    expect(status).toBe(0);
  });
});
