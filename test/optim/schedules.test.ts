import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { OPTIMIZER_PLUGINS, SCHEDULE_PLUGINS } from '../../src/optim/builtins.ts';
import type { Schedule } from '../../src/plugin-host/contract.ts';

interface Case {
  readonly use: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly total: number;
  readonly updatesPerEpoch: number;
  readonly rates: readonly number[];
  readonly momenta?: readonly number[];
}

const CASES = JSON.parse(readFileSync('test/fixtures/optim/schedules.json', 'utf8')) as Case[];

function make(use: string, options: Readonly<Record<string, unknown>>): Schedule {
  const plugin = SCHEDULE_PLUGINS.find(({ name }) => name === use)!;
  return new (plugin.implementation as new (parsed: unknown) => Schedule)(plugin.options.parse(options));
}

describe('schedules', () => {
  it.each(CASES.map((c) => [c.use, c.options, c] as const))('%s %j equals torch', (use, options, fixture) => {
    const schedule = make(use, options);
    fixture.rates.forEach((rate, step) => {
      expect(Math.abs(0.4 * schedule.factor(step, fixture.total, fixture.updatesPerEpoch) - rate)).toBeLessThan(1e-7);
    });
    expect(schedule.momentum !== undefined).toBe(fixture.momenta !== undefined);
    fixture.momenta?.forEach((momentum, step) => {
      const own = schedule.momentum!(step, fixture.total, fixture.updatesPerEpoch);
      expect(Math.abs(own - momentum)).toBeLessThan(1e-7);
    });
  });

  it('gives a finite factor of 0..1 for every step of every stage', () => {
    const warmup = fc.oneof(
      fc.double({ min: 0, max: 20, noNaN: true }),
      fc.record({
        epochs: fc.double({ min: 0, max: 3, noNaN: true }),
        start: fc.double({ min: 0, max: 1, noNaN: true }),
      }),
      fc.record({ updates: fc.nat(300) }),
      fc.record({ share: fc.double({ min: 0, max: 1, noNaN: true }) }),
    );
    const use = fc.oneof(
      fc.record({ use: fc.constant('constant'), options: fc.record({ warmup }) }),
      fc.record({
        use: fc.constant('cosine'),
        options: fc.record({ warmup, final: fc.double({ min: 0, max: 1, noNaN: true }) }),
      }),
      fc.record({
        use: fc.constant('multi-step'),
        options: fc.record({ warmup, milestones: fc.array(fc.nat(20), { minLength: 1 }) }),
      }),
      fc.record({
        use: fc.constant('one-cycle'),
        options: fc.record({
          rise: fc.double({ min: 0.01, max: 0.99, noNaN: true }),
          anneal: fc.constantFrom('cos', 'linear'),
        }),
      }),
    );
    fc.assert(
      fc.property(
        use,
        fc.integer({ min: 1, max: 400 }),
        fc.integer({ min: 1, max: 50 }),
        fc.nat(450),
        (u, total, perEpoch, step) => {
          const schedule = make(u.use, u.options);
          const factor = schedule.factor(step, total, perEpoch);
          expect(factor).toBeGreaterThanOrEqual(0);
          expect(factor).toBeLessThanOrEqual(1 + 1e-12);
          const momentum = schedule.momentum?.(step, total, perEpoch);
          if (momentum !== undefined) {
            expect(momentum).toBeGreaterThanOrEqual(0.85 - 1e-12);
            expect(momentum).toBeLessThanOrEqual(0.95 + 1e-12);
          }
        },
      ),
    );
  });

  it('reaches the base rate right after the warm-up and rises until then', () => {
    const schedule = make('constant', { warmup: { epochs: 2, start: 0 } });
    expect(schedule.factor(0, 100, 10)).toBe(0);
    expect(schedule.factor(10, 100, 10)).toBe(0.5);
    expect(schedule.factor(20, 100, 10)).toBe(1);
  });

  it('takes stages of one update and a peak at the first update', () => {
    expect(make('one-cycle', {}).factor(0, 1, 1)).toBeCloseTo(1 / 25 / 1e4, 12);
    expect(make('one-cycle', { rise: 0.1 }).factor(0, 10, 1)).toBe(1);
    expect(make('cosine', { warmup: 5 }).factor(0, 1, 1)).toBeCloseTo(0.01, 12);
    expect(make('cosine', {}).factor(0, 1, 1)).toBe(1);
  });

  it('moves no momentum with cycleMomentum: false', () => {
    expect(make('one-cycle', { cycleMomentum: false }).momentum).toBeUndefined();
  });

  it('refuses unknown and contradictory options', () => {
    expect(() => make('cosine', { min: 0 })).toThrow(/min/);
    expect(() => make('constant', { warmup: { epochs: 1, updates: 3 } })).toThrow();
    expect(() => make('one-cycle', { baseMomentum: 0.96 })).toThrow(/baseMomentum must not be above/);
    expect(() => make('multi-step', { milestones: [] })).toThrow();
  });

  it('describes every plugin and option', () => {
    for (const { description, options } of [...SCHEDULE_PLUGINS, ...OPTIMIZER_PLUGINS]) {
      expect(description).toMatch(/\.$/);
      for (const option of Object.values(options.shape))
        expect((option as { description?: string }).description).toBeTruthy();
    }
  });
});
