import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fromTorchLayout, torchCounters, torchShape, toTorchLayout } from '../../src/nn/layout.ts';

const numbers = (count: number) => Float32Array.from({ length: count }, (_, i) => i);

describe('toTorchLayout', () => {
  it('turns a kernel [kh,kw,in,out] into [out,in,kh,kw]', () => {
    const [kh, kw, inputs, outputs] = [2, 3, 4, 5];
    const { shape, data } = toTorchLayout({ shape: [kh, kw, inputs, outputs], role: 'kernel' }, numbers(120));
    expect(shape).toEqual([5, 4, 2, 3]);
    for (let o = 0; o < outputs; o++)
      for (let i = 0; i < inputs; i++)
        for (let y = 0; y < kh; y++)
          for (let x = 0; x < kw; x++)
            expect(data[((o * inputs + i) * kh + y) * kw + x]).toBe(((y * kw + x) * inputs + i) * outputs + o);
  });

  it('turns a depthwise kernel [kh,kw,C,1] into [C,1,kh,kw]', () => {
    const { shape, data } = toTorchLayout({ shape: [1, 2, 3, 1], role: 'depthwise-kernel' }, numbers(6));
    expect(shape).toEqual([3, 1, 1, 2]);
    expect([...data]).toEqual([0, 3, 1, 4, 2, 5]);
  });

  it('transposes a dense kernel and copies the rest', () => {
    expect(toTorchLayout({ shape: [2, 3], role: 'kernel' }, numbers(6))).toEqual({
      shape: [3, 2],
      data: Float32Array.of(0, 3, 1, 4, 2, 5),
    });
    for (const role of ['bias', 'norm', 'embedding', 'token', 'position', 'scale'] as const)
      expect(toTorchLayout({ shape: [2, 3], role }, numbers(6))).toEqual({ shape: [2, 3], data: numbers(6) });
  });

  it('refuses values that do not fill the shape', () => {
    const code = expect.objectContaining({ code: 'SHAPE_MISMATCH' });
    expect(() => toTorchLayout({ shape: [2, 3], role: 'kernel' }, numbers(5))).toThrow(code);
    expect(() => fromTorchLayout({ shape: [2, 3], role: 'kernel' }, numbers(7))).toThrow(code);
  });
});

describe('fromTorchLayout', () => {
  it('is the inverse, for every role and shape', () => {
    const size = fc.integer({ min: 1, max: 4 });
    const spec = fc.oneof(
      fc.tuple(size, size, size, size).map((shape) => ({ shape, role: 'kernel' as const })),
      fc.tuple(size, size).map((shape) => ({ shape, role: 'kernel' as const })),
      fc.tuple(size, size, size).map((shape) => ({ shape: [...shape, 1], role: 'depthwise-kernel' as const })),
      fc.array(size, { maxLength: 3 }).map((shape) => ({ shape, role: 'bias' as const })),
    );
    fc.assert(
      fc.property(spec, (given) => {
        const values = numbers(given.shape.reduce((product, n) => product * n, 1));
        const { shape, data } = toTorchLayout(given, values);
        expect(shape).toEqual(torchShape(given));
        expect(fromTorchLayout(given, data)).toEqual(values);
      }),
    );
  });
});

describe('torchCounters', () => {
  it('names one counter beside each running mean', () => {
    expect(torchCounters([{ name: 'bn1.running_mean' }, { name: 'bn1.running_var' }, { name: 'queue' }])).toEqual([
      'bn1.num_batches_tracked',
    ]);
  });
});
