import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { planResize, resizeNow } from '../../src/data/resize.ts';
import type { ResizeRule } from '../../src/data/source.ts';

interface Case {
  from: [number, number, number];
  to: [number, number];
  interpolation: NonNullable<ResizeRule['interpolation']>;
  input: number[];
  output: number[];
}
const { cases } = JSON.parse(readFileSync(new URL('../fixtures/data/resize.json', import.meta.url), 'utf8')) as {
  cases: Case[];
};

describe('resizeNow', () => {
  it.each(cases.map((c) => [`[${c.from}] -> [${c.to}] ${c.interpolation}`, c] as const))(
    'equals Pillow: %s',
    (_, c) => {
      const [height, width, channels] = c.from;
      const image = { data: Uint8Array.from(c.input), height, width, channels };
      const resized = resizeNow(image, c.to, { interpolation: c.interpolation }, 'x')!;
      // Pillow has weights of 22 bits where we have floats, so a value just at .5 may round the other way.
      const worst = Math.max(...c.output.map((value, i) => Math.abs(value - resized.data[i]!)));
      expect(resized.data.length).toBe(c.output.length);
      expect(worst).toBeLessThanOrEqual(c.interpolation === 'nearest' ? 0 : 1);
    },
  );

  it('keeps an image of one colour that colour, whatever the sizes', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 1, max: 20 }),
        fc.constantFrom('nearest', 'bilinear', 'bicubic'),
        fc.constantFrom('stretch', 'cover'),
        fc.double({ min: 0.3, max: 1, noNaN: true }),
        fc.nat(255),
        (height, width, outHeight, outWidth, interpolation, fit, cropShare, value) => {
          const data = new Uint8Array(height * width * 3).fill(value);
          const rule = { interpolation, fit, cropShare } as const;
          const out = resizeNow({ data, height, width, channels: 3 }, [outHeight, outWidth], rule, 'x')!;
          expect([out.height, out.width, out.data.length]).toEqual([outHeight, outWidth, outHeight * outWidth * 3]);
          expect(out.data.every((other) => other === value)).toBe(true);
        },
      ),
    );
  });

  it('leaves shrinking a large image to a thread', () => {
    const large = { data: new Uint8Array(300 * 300), height: 300, width: 300, channels: 1 };
    expect(resizeNow(large, [100, 100], {}, 'x')).toBeUndefined();
    expect(resizeNow(large, [310, 310], {}, 'x')).toMatchObject({ height: 310, width: 310 });
  });

  it('plans as timm evaluates: shorter side to size / share, then the centre', () => {
    expect(planResize([300, 400], [224, 224], { cropShare: 0.875 }, 'x')).toEqual({
      scaled: [256, 341],
      top: 16,
      left: 59,
    });
    expect(planResize([300, 400], [224, 224], {}, 'x')).toEqual({ scaled: [224, 224], top: 0, left: 0 });
  });
});
