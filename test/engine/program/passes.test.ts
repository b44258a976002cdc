import * as tf from '@tensorflow/tfjs-core';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { capture, trace } from '../../../src/engine/capture.ts';
import { engine } from '../../../src/engine/engine.ts';
import { gather, relu, valueAndGradients } from '../../../src/engine/kernels/index.ts';
import { mergeEqualOps, removeDeadOps, removeNoOps, runPasses } from '../../../src/engine/program/passes.ts';
import { ATTR, nodeName, opOfNode, type Program } from '../../../src/engine/program/program.ts';
import { DTYPE } from '../../../src/engine/tensorflow/dtypes.ts';
import { openTestEngine } from '../../engine-setup.ts';
import { expectClose, inAllModes, tensorOf, valuesOf, wave } from '../modes.ts';

beforeAll(openTestEngine);

const types = (program: Program) => program.ops.map((op) => op.type);

/** The program of a function of float tensors of the given shapes. */
function programOf(shapes: readonly number[][], fn: (...x: tf.Tensor[]) => tf.Tensor | tf.Tensor[]): Program {
  return trace(
    'case',
    shapes.map((shape) => ({ shape })),
    fn,
  ).program;
}

/** An op with a state of its own: TensorFlow's generator, which no key steers. */
function draw(): tf.Tensor {
  const { backend, binding } = engine();
  const shape = binding.createTensor([1], DTYPE.int32, Int32Array.of(2));
  const attrs = [
    { name: 'seed', type: ATTR.int, value: 7 },
    { name: 'seed2', type: ATTR.int, value: 7 },
    { name: 'dtype', type: ATTR.type, value: DTYPE.float32 },
    { name: 'T', type: ATTR.type, value: DTYPE.int32 },
  ];
  return backend.createOutputTensor(binding.executeOp('RandomUniform', attrs, [shape], 1)[0]!);
}

describe('dead code', () => {
  it('goes, with all that only it needed; inputs stay', () => {
    const program = programOf([[2], [2]], (x) => {
      tf.exp(tf.square(x!));
      return tf.neg(x!);
    });
    expect(types(removeDeadOps(program))).toEqual(['Input', 'Input', 'Neg']);
    expect(removeDeadOps(program).inputs).toHaveLength(2);
  });

  it('stays where an op has a state or side effect', () => {
    const program = programOf([[2]], (x) => {
      draw();
      return tf.neg(x!);
    });
    expect(types(runPasses(program))).toContain('RandomUniform');
  });
});

describe('equal ops', () => {
  it('are one, transitively, constants and attributes compared', () => {
    const program = programOf([[2, 3]], (x) =>
      tf.add(tf.add(tf.sum(tf.square(x!), 1), tf.sum(tf.square(x!), 1)), tf.sum(tf.square(x!), 0, true).sum(1)),
    );
    const merged = types(runPasses(program));
    expect(merged.filter((type) => type === 'Square')).toHaveLength(1);
    expect(merged.filter((type) => type === 'Sum')).toHaveLength(3);
  });

  it('stay apart where types, shapes or values of constants differ', () => {
    const program = programOf([[2]], (x) => [
      tf.add(x!, tf.tensor1d([1, 1])),
      tf.add(x!, tf.scalar(1)),
      tf.add(x!, tf.tensor1d([1, 2])),
      tf.cast(tf.add(tf.cast(x!, 'int32'), tf.tensor1d([1, 1], 'int32')), 'float32'),
    ]);
    expect(types(mergeEqualOps(program)).filter((type) => type === 'Const')).toHaveLength(4);
  });

  it('with state stay apart', () => {
    const program = programOf([[2]], (x) => {
      return tf.addN([x!, draw(), draw()]);
    });
    expect(types(runPasses(program)).filter((type) => type === 'RandomUniform')).toHaveLength(2);
  });
});

describe('no-ops', () => {
  it('go: clones, reshapes and broadcasts to the same shape, casts to the same type, + 0, * 1', () => {
    const program = programOf([[2, 3]], (x) => {
      let y = tf.clone(x!);
      y = tf.reshape(y, [2, 3]);
      y = tf.tile(y, [1, 1]);
      y = tf.add(y, 0);
      y = tf.add(tf.zerosLike(y), y);
      y = tf.mul(y, tf.onesLike(y));
      y = tf.mul(y, tf.fill([2, 3], 1));
      y = tf.mul(1, y);
      return tf.cast(tf.neg(y), 'float32');
    });
    expect(types(runPasses(program))).toEqual(['Input', 'Neg']);
  });

  it('stay where they broadcast', () => {
    const x = tf.tensor1d([1, 2]);
    const program = programOf([[2]], (t) => tf.add(t!, tf.zeros([3, 2])));
    expect(types(removeNoOps(program))).toContain('Add');
    const captured = capture('broadcast', (t: tf.Tensor) => tf.mul(t, tf.ones([2, 1, 2])), { mode: 'graph' });
    return captured(x).then((y) => expect(y.shape).toEqual([2, 1, 2]));
  });

  it('give the argument itself where nothing is left', async () => {
    const same = capture('same', (x: tf.Tensor) => ({ a: tf.reshape(x, [2]), b: tf.mul(x, 1) }), { mode: 'graph' });
    const x = tf.tensor1d([3, 4]);
    const { a, b } = await same(x);
    expect(same.program?.outputs).toHaveLength(0);
    x.dispose();
    a.dispose();
    expect(Array.from(b.dataSync())).toEqual([3, 4]);
  });
});

describe('ops that take lists of tensors', () => {
  const cases: Readonly<Record<string, (a: tf.Tensor, b: tf.Tensor) => tf.Tensor>> = {
    ConcatV2: (a, b) => tf.concat([a, b, a], 0),
    Pack: (a, b) => tf.stack([a, b, b, a], 1),
    AddN: (a, b) => tf.addN([a, b, a]),
    Einsum: (a, b) => tf.einsum('ij,kj->ik', a, b),
    Unpack: (a, b) => tf.add(tf.unstack(a)[1]!, tf.unstack(b)[0]!),
    SplitV: (a, b) => tf.add(tf.split(a, [1, 2], 1)[0]!, tf.split(b, [2, 1], 1)[1]!),
  };
  for (const [type, fn] of Object.entries(cases)) {
    it(`${type} records and runs`, async () => {
      const a = tensorOf(wave([2, 3], 1));
      const b = tensorOf(wave([2, 3], 2));
      expect(types(programOf([[2, 3], [2, 3]], (x, y) => fn(x!, y!)))).toContain(type); // biome-ignore format: two shapes
      await inAllModes(({ a, b }) => ({ y: fn(a!, b!) }), { a, b });
    });
  }

  it('one tensor in a list is a list', async () => {
    await inAllModes(({ a }) => ({ y: tf.stack([a!]), z: tf.neg(tf.concat([a!], 0)) }), { a: tensorOf(wave([2], 1)) });
  });
});

describe('names in messages', () => {
  it('lead back to the op', () => {
    const program = programOf([[2]], (x) => tf.neg(tf.square(tf.square(x!))));
    for (const op of program.ops) expect(opOfNode(program, `at {{node ${nodeName(op)}}} failed`)).toBe(op);
    expect(opOfNode(program, 'nothing_here and Square_99')).toBeUndefined();
  });
});

/** One instruction of a random program: an op and the values it reads, as positions among those made so far. */
interface Instruction {
  readonly op: string;
  readonly a: number;
  readonly b: number;
}

/** Each keeps the shape [3,4] and stays finite for values in about [-1, 1]. */
const INSTRUCTIONS: Readonly<Record<string, (a: tf.Tensor, b: tf.Tensor) => tf.Tensor>> = {
  add: (a, b) => tf.mul(tf.add(a, b), 0.5),
  sub: (a, b) => tf.mul(tf.sub(a, b), 0.5),
  mul: (a, b) => tf.mul(a, b),
  plusZero: (a) => tf.add(a, 0),
  zeroPlus: (a) => tf.add(tf.zerosLike(a), a),
  timesOne: (a) => tf.mul(tf.ones([3, 4]), a),
  clone: (a) => tf.clone(a),
  reshape: (a) => tf.reshape(tf.reshape(a, [12]), [3, 4]),
  twice: (a) => tf.transpose(tf.transpose(a)),
  tanh: (a) => tf.tanh(a),
  relu: (a) => relu(a),
  centre: (a) => tf.mul(tf.sub(a, tf.mean(a, 0, true)), 0.5),
  row: (a, b) => tf.mul(tf.add(a, tf.mean(b, 1, true)), 0.5),
  scalar: (a, b) => tf.mul(a, tf.mean(b)),
  where: (a, b) => tf.where(tf.greater(a, b), a, b),
  gather: (a) => gather(a, tf.tensor1d([2, 0, 0], 'int32')),
  concat: (a, b) => tf.slice(tf.concat([a, b], 0), [1, 0], [3, 4]),
  addN: (a, b) => tf.mul(tf.addN([a, b, a]), 1 / 3),
  square: (a) => tf.square(a),
  dead: (a, b) => {
    tf.exp(tf.add(a, b));
    return a;
  },
};

describe('random programs', () => {
  const instruction = fc.record({
    op: fc.constantFrom(...Object.keys(INSTRUCTIONS)),
    a: fc.nat(30),
    b: fc.nat(30),
  });

  function build(instructions: readonly Instruction[], inputs: readonly tf.Tensor[]): tf.Tensor[] {
    const values = [...inputs];
    // The newest values are read most often, so that the programs are deep.
    const at = (i: number) => values[Math.max(0, values.length - 1 - i)]!;
    for (const { op, a, b } of instructions) values.push(INSTRUCTIONS[op]!(at(a % 6), at(b)));
    return values;
  }

  it('mean the same eager and optimised, with their gradients', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(instruction, { minLength: 1, maxLength: 14 }), async (instructions) => {
        const inputs = { x: tensorOf(wave([3, 4], 1)), y: tensorOf(wave([3, 4], 2)) };
        const fn = ({ x, y }: { x: tf.Tensor; y: tf.Tensor }) => {
          const step = valueAndGradients(
            () => {
              const values = build(instructions, [x, y]);
              const last = values[values.length - 1]!;
              return { loss: tf.sum(tf.mul(last, last)), aux: { last, middle: values[values.length >> 1]! } };
            },
            { x, y },
          );
          return { ...step.aux, ...step.gradients, loss: step.loss } as Record<string, tf.Tensor>;
        };
        engine().backend.getInputTensorIds(Object.values(inputs)); // uploads them, so that counting is exact
        const before = [engine().tensorCount(), tf.memory().numTensors];
        const eager = await capture('random', fn, { mode: 'eager' })(inputs);
        const graph = capture('random', fn, { mode: 'graph' });
        const found = await graph(inputs);
        expect(Object.keys(found)).toEqual(Object.keys(eager));
        for (const [name, value] of Object.entries(found))
          expectClose(valuesOf(value), valuesOf(eager[name]!), 1e-5, name);
        // A second run of the passes finds nothing more to do, and no op reads a value that comes later.
        const again = runPasses({ ...graph.program! });
        expect(again.ops.length).toBe(graph.program!.ops.length);
        const made = new Set<unknown>();
        for (const op of graph.program!.ops) {
          for (const input of op.inputs) expect(made.has(input.op)).toBe(true);
          made.add(op);
        }
        tf.dispose([eager, found]);
        graph.dispose();
        expect([engine().tensorCount(), tf.memory().numTensors]).toEqual(before);
        tf.dispose(inputs);
      }),
      { numRuns: 120, seed: 20261201 },
    );
  });
});
