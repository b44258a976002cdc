import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { capture, isRecording, trace } from '../../src/engine/capture.ts';
import { type EngineMode, engine, openEngine } from '../../src/engine/engine.ts';
import { bytesTensor, castFloat } from '../../src/engine/kernels/index.ts';
import { ATTR } from '../../src/engine/program/program.ts';
import { DTYPE } from '../../src/engine/tensorflow/dtypes.ts';
import { AlambicError } from '../../src/errors.ts';
import { openTestEngine } from '../engine-setup.ts';

beforeAll(openTestEngine);

const COMPILED: readonly EngineMode[] = ['graph', 'xla'];
const read = (tensor: tf.Tensor) => Array.from(tensor.dataSync());

async function errorOf(promise: Promise<unknown>): Promise<AlambicError> {
  const error = await promise.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  expect(error).toBeInstanceOf(AlambicError);
  return error as AlambicError;
}

/** The binding can still record and run. */
async function expectUsable(): Promise<void> {
  expect(isRecording()).toBe(false);
  const y = await capture('after', (x: tf.Tensor) => tf.add(x, 1), { mode: 'graph' })(tf.scalar(1));
  expect(read(y)).toEqual([2]);
  y.dispose();
}

describe('opening', () => {
  it('gives the same engine twice, with the mode of the call', async () => {
    const first = await openEngine();
    const second = await openEngine({ mode: 'xla', device: 'cpu' });
    expect(second).toBe(first);
    expect(engine().mode).toBe('xla');
    await openEngine({ mode: 'graph' });
    expect(first.version).toMatch(/^2\.\d+\.\d+/);
  });

  it('refuses another device than the open one', async () => {
    for (const device of ['gpu:0', 'gpu:1', 'tpu']) {
      await expect(openEngine({ device })).rejects.toMatchObject({ code: 'DEVICE_FIXED' });
    }
  });
});

describe('results', () => {
  it('take any structure, argument leaves, repeats, constants and outer tensors among them', async () => {
    const outer = tf.tensor1d([10, 20]);
    const x = tf.tensor1d([1, 2]);
    for (const mode of ['eager', ...COMPILED] as const) {
      const captured = capture(
        'structure',
        (tree: { x: tf.Tensor }) => {
          const y = tf.add(tree.x, outer);
          return { x: tree.x, twice: [y, y], constant: tf.tensor1d([5]), outer, empty: {} };
        },
        { mode },
      );
      const before = tf.memory().numTensors;
      const result = await captured({ x });
      expect(read(result.x)).toEqual([1, 2]);
      expect(result.twice.map(read)).toEqual([[11, 22], [11, 22]]); // biome-ignore format: a pair of pairs
      expect(read(result.constant)).toEqual([5]);
      expect(read(result.outer)).toEqual([10, 20]);
      // Each leaf is the caller's own: disposing one harms neither the others nor the argument nor the outer tensor.
      result.twice[0]!.dispose();
      expect(read(result.twice[1]!)).toEqual([11, 22]);
      tf.dispose([result.twice[1]!, result.x, result.constant, result.outer]);
      expect(read(x)).toEqual([1, 2]);
      expect(read(outer)).toEqual([10, 20]);
      expect(tf.memory().numTensors).toBe(before);
      captured.dispose();
    }
  });

  it('of a function without ops are its arguments', async () => {
    const x = tf.scalar(3);
    const y = await capture('identity', (t: tf.Tensor) => t, { mode: 'graph' })(x);
    x.dispose();
    expect(read(y)).toEqual([3]);
  });

  it('are empty for an empty tree', async () => {
    for (const mode of ['eager', ...COMPILED] as const) {
      expect(await capture('nothing', (_: tf.Tensor) => ({}), { mode })(tf.scalar(1))).toEqual({});
    }
  });

  it('must be tensors', async () => {
    const numbers = capture('numbers', ((x: tf.Tensor) => ({ x, n: 3 })) as never, { mode: 'graph' });
    const error = await errorOf((numbers as (x: tf.Tensor) => Promise<unknown>)(tf.scalar(1)));
    expect(error).toMatchObject({ code: 'CAPTURE_RESULT', message: expect.stringContaining('n is number') });
    await expectUsable();
  });
});

describe('arguments', () => {
  it('must be tensors', async () => {
    const add = capture('add', (x: tf.Tensor, y: tf.Tensor) => tf.add(x, y), { mode: 'graph' });
    const error = await errorOf(add(tf.scalar(1), 2 as unknown as tf.Tensor));
    expect(error).toMatchObject({ code: 'CAPTURE_ARGUMENT', message: expect.stringContaining('1 is number') });
    expect(error.hint).toContain('scalar tensor');
    await expectUsable();
  });

  it('are recorded anew for each shape, type and structure, and only once for each', async () => {
    let recordings = 0;
    const sum = capture(
      'sum',
      (tree: Record<string, tf.Tensor>) => {
        recordings++;
        return tf.addN(Object.values(tree).map((leaf) => tf.sum(castFloat(leaf))));
      },
      { mode: 'graph' },
    );
    const calls: [Record<string, tf.Tensor>, number][] = [
      [{ a: tf.tensor1d([1, 2]) }, 3],
      [{ a: tf.tensor1d([1, 2, 3]) }, 6],
      [{ a: tf.tensor2d([[1, 2, 3]]) }, 6],
      [{ a: tf.tensor1d([1, 2], 'int32') }, 3],
      [{ a: bytesTensor(Uint8Array.of(200, 2), [2]) }, 202],
      [{ b: tf.tensor1d([1, 2]) }, 3],
      [{ a: tf.tensor1d([1, 2]), b: tf.scalar(4) }, 7],
    ];
    for (const round of [1, 2]) {
      for (const [tree, expected] of calls) expect(read(await sum(tree))).toEqual([expected]);
      expect(recordings, `recordings after round ${round}`).toBe(calls.length);
    }
    sum.dispose();
    expect(read(await sum(calls[0]![0]))).toEqual([3]);
    expect(recordings).toBe(calls.length + 1);
  });

  it('that differ only in how lists nest are different', async () => {
    let recordings = 0;
    const first = capture(
      'first',
      (tree: readonly (tf.Tensor | readonly tf.Tensor[])[]) => {
        recordings++;
        return tf.add(Array.isArray(tree[0]) ? tree[0][0] : (tree[0] as tf.Tensor), 0.5);
      },
      { mode: 'graph' },
    );
    expect(read(await first([tf.scalar(1)]))).toEqual([1.5]);
    expect(read(await first([[tf.scalar(2)]]))).toEqual([2.5]);
    expect(recordings).toBe(2);
  });

  it('given twice stay two arguments', async () => {
    const sub = capture('sub', (x: tf.Tensor, y: tf.Tensor) => tf.sub(x, y), { mode: 'graph' });
    const x = tf.scalar(5);
    expect(read(await sub(x, x))).toEqual([0]);
    expect(read(await sub(x, tf.scalar(3)))).toEqual([2]);
  });

  it('may still lie in JavaScript, and are not baked in', async () => {
    const double = capture('double', (x: tf.Tensor) => tf.mul(x, 2), { mode: 'graph' });
    expect(read(await double(tf.tensor1d([1])))).toEqual([2]);
    expect(read(await double(tf.tensor1d([7])))).toEqual([14]);
  });

  it('may be disposed while the run is in flight', async () => {
    const x = tf.ones([300, 300]);
    const chain = capture(
      'chain',
      (t: tf.Tensor) => {
        let y = t;
        for (let i = 0; i < 20; i++) y = tf.div(tf.matMul(y, t), 300);
        return { y: tf.mean(y), t };
      },
      { mode: 'graph' },
    );
    chain.record(x);
    const running = chain(x);
    x.dispose();
    const { y, t } = await running;
    expect(read(y)[0]).toBeCloseTo(1, 5);
    expect(t.dataSync().every((value) => value === 1)).toBe(true);
    tf.dispose([y, t]);
  });

  it('that are disposed already are named as such', async () => {
    const x = tf.scalar(1);
    x.dispose();
    for (const mode of ['eager', 'graph'] as const) {
      await expect(capture('late', (t: tf.Tensor) => tf.add(t, 1), { mode })(x)).rejects.toThrow(/disposed/i);
      await expectUsable();
    }
  });
});

describe('tensors from outside', () => {
  it('are read at their own place, and kept while the captured function lives', async () => {
    const before = engine().tensorCount();
    const weight = tf.tensor1d([1, 2, 3]);
    weight.dataSync();
    tf.square(weight).dispose(); // uploads it
    const scaled = capture('scaled', (x: tf.Tensor) => tf.mul(x, weight), { mode: 'graph' });
    const x = tf.scalar(2);
    expect(read(await scaled(x))).toEqual([2, 4, 6]);
    weight.dispose();
    expect(read(await scaled(x))).toEqual([2, 4, 6]);
    scaled.dispose();
    x.dispose();
    // Two results that this test does not dispose.
    expect(engine().tensorCount() - before).toBe(2);
  });

  it('made before but uploaded first inside a recording become constants and stay usable outside', async () => {
    const weight = tf.tensor1d([1, 2]);
    const scaled = capture('lazy', (x: tf.Tensor) => tf.mul(x, weight), { mode: 'graph' });
    expect(read(await scaled(tf.scalar(3)))).toEqual([3, 6]);
    expect(read(tf.add(weight, 1))).toEqual([2, 3]);
    weight.dispose();
    expect(read(await scaled(tf.scalar(4)))).toEqual([4, 8]);
  });

  it('captured by two signatures and two functions are freed by the last', async () => {
    const weight = tf.add(tf.ones([2]), 0);
    const before = engine().tensorCount();
    const a = capture('a', (x: tf.Tensor) => tf.mul(x, weight), { mode: 'graph' });
    const b = capture('b', (x: tf.Tensor) => tf.sub(x, weight), { mode: 'graph' });
    tf.dispose([await a(tf.scalar(1)), await a(tf.ones([2])), await b(tf.scalar(1))]);
    weight.dispose();
    a.dispose();
    const y = await b(tf.scalar(5));
    expect(read(y)).toEqual([4, 4]);
    y.dispose();
    b.dispose();
    // Four arguments were made above; weight is gone.
    expect(engine().tensorCount() - before).toBe(4 - 1);
  });
});

describe('failures while recording leave the engine usable', () => {
  it('a function that throws', async () => {
    const count = engine().tensorCount();
    const fail = capture(
      'fail',
      (x: tf.Tensor) => {
        tf.square(x);
        throw new Error('my own');
      },
      { mode: 'graph' },
    );
    const x = tf.scalar(1);
    await expect(fail(x)).rejects.toThrow('my own');
    await expect(fail(x)).rejects.toThrow('my own');
    x.dispose();
    expect(engine().tensorCount()).toBe(count);
    await expectUsable();
  });

  it('an async function', async () => {
    const wait = capture('wait', (async (x: tf.Tensor) => x) as never, { mode: 'graph' });
    const error = await errorOf((wait as (x: tf.Tensor) => Promise<unknown>)(tf.scalar(1)));
    expect(error.code).toBe('CAPTURE_ASYNC');
    await expectUsable();
  });

  it('a captured function called inside of another', async () => {
    const inner = capture('inner', (x: tf.Tensor) => tf.square(x), { mode: 'graph' });
    let nested: Promise<unknown> | undefined;
    const outer = capture(
      'outer',
      (x: tf.Tensor) => {
        nested = inner(x);
        nested.catch(() => undefined);
        return tf.add(x, 1);
      },
      { mode: 'graph' },
    );
    await outer(tf.scalar(1));
    expect((await errorOf(nested!)).code).toBe('RECORDING_NESTED');
    await expectUsable();
  });

  it('an op that TensorFlow refuses, with its name and the line', async () => {
    const wrong = capture('wrong', (x: tf.Tensor, y: tf.Tensor) => tf.add(x, y), { mode: 'graph' });
    const error = await errorOf(wrong(tf.ones([2]), tf.ones([3])).catch((e) => Promise.reject(e)));
    expect(error.code).toBe('TENSORFLOW_INVALID_ARGUMENT');
    expect(error.message).toMatch(/^op Add: /);
    expect(error.at).toMatch(/capture\.test\.ts:\d+:\d+$/);
    await expectUsable();
  });

  it('a value that is read, with the line', async () => {
    for (const readIt of [
      (x: tf.Tensor) => void tf.square(x).dataSync(),
      (x: tf.Tensor) => void tf.square(x).arraySync(),
      (x: tf.Tensor) => {
        if (tf.square(x).dataSync()[0]! > 0) tf.neg(x);
      },
    ]) {
      const peek = capture(
        'peek',
        (x: tf.Tensor) => {
          readIt(x);
          return x;
        },
        { mode: 'graph' },
      );
      const error = await errorOf(peek(tf.scalar(1)));
      expect(error).toMatchObject({ code: 'READ_WHILE_RECORDING', message: expect.stringContaining('"peek"') });
      expect(error.at).toMatch(/capture\.test\.ts:\d+:\d+$/);
      await expectUsable();
    }
  });

  it('a result of unknown shape names its op', async () => {
    const error = await errorOf(
      capture(
        'unknown',
        (x: tf.Tensor) => {
          const { backend } = engine();
          return backend.executeSingleOutput(
            'Where',
            [{ name: 'T', type: ATTR.type, value: DTYPE.bool }],
            [tf.greater(x, 0)],
          );
        },
        { mode: 'graph' },
      )(tf.ones([3])),
    );
    expect(error).toMatchObject({ code: 'SHAPE_UNKNOWN', message: expect.stringContaining('Where') });
    expect(error.at).toMatch(/capture\.test\.ts:\d+:\d+$/);
    await expectUsable();
  });

  it('a tensor of a recording kept for later', async () => {
    let leaked: tf.Tensor | undefined;
    const keep = capture(
      'keep',
      (x: tf.Tensor) => {
        leaked = tf.keep(tf.square(x));
        return tf.add(leaked, 1);
      },
      { mode: 'graph' },
    );
    await keep(tf.scalar(2));
    expect(() => leaked!.dataSync()).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/DISPOSED|STALE/) }),
    );
    const other = capture('other', (x: tf.Tensor) => tf.add(x, leaked!), { mode: 'graph' });
    expect((await errorOf(other(tf.scalar(1)))).code).toMatch(/DISPOSED|STALE/);
    leaked!.dispose();
    await expectUsable();
  });
});

describe('failures while running', () => {
  it('name the op and the line of the user, in graph mode', async () => {
    const pick = capture('pick', (x: tf.Tensor, i: tf.Tensor) => tf.neg(tf.gather(tf.square(x), i)), { mode: 'graph' });
    const error = await errorOf(pick(tf.ones([3]), tf.tensor1d([9], 'int32')));
    expect(error.code).toBe('TENSORFLOW_INVALID_ARGUMENT');
    expect(error.message).toMatch(/^op GatherV2: .*9/);
    expect(error.at).toMatch(/capture\.test\.ts:\d+:\d+$/);
    expect(read(await pick(tf.ones([3]), tf.tensor1d([2], 'int32')))).toEqual([-1]);
  });

  it('free what they made', async () => {
    const pick = capture('pick', (x: tf.Tensor, i: tf.Tensor) => ({ x, y: tf.gather(x, i) }), { mode: 'graph' });
    const x = tf.ones([3]);
    const i = tf.tensor1d([9], 'int32');
    await errorOf(pick(x, i));
    const before = [engine().tensorCount(), tf.memory().numTensors];
    for (let n = 0; n < 5; n++) await errorOf(pick(x, i));
    expect([engine().tensorCount(), tf.memory().numTensors]).toEqual(before);
  });

  it('out of memory has a code of its own', async () => {
    // 2^46 bytes: more than any machine has, and less than the overflow that TensorFlow calls an invalid argument. Its allocator
    // waits ten seconds for others to give memory back.
    const grow = capture('grow', (x: tf.Tensor) => tf.tile(tf.reshape(x, [1, 1]), [2 ** 22, 2 ** 22]), {
      mode: 'graph',
    });
    const error = await errorOf(grow(tf.scalar(1)));
    expect(error.code).toBe('OUT_OF_MEMORY');
    expect(error.hint).toMatch(/smaller batch/);
    expect(error.at).toMatch(/capture\.test\.ts:\d+:\d+$/);
  });
});

describe('running', () => {
  it('does not hold up the event loop', async () => {
    const x = tf.ones([700, 700]);
    const chain = capture(
      'long',
      (t: tf.Tensor) => {
        let y = t;
        for (let i = 0; i < 60; i++) y = tf.div(tf.matMul(y, t), 700);
        return tf.mean(y);
      },
      { mode: 'graph' },
    );
    tf.dispose(await chain(x));
    let ticks = 0;
    const timer = setInterval(() => ticks++, 5);
    const started = performance.now();
    tf.dispose(await chain(x));
    const took = performance.now() - started;
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(Math.min(10, took / 50));
  });

  it('runs two functions of the same name side by side', async () => {
    const add = capture('same', (x: tf.Tensor) => tf.add(x, 1), { mode: 'graph' });
    const mul = capture('same', (x: tf.Tensor) => tf.mul(x, 10), { mode: 'graph' });
    const x = tf.scalar(2);
    const results = await Promise.all([add(x), mul(x), add(x), mul(x)]);
    expect(results.map((y) => read(y)[0])).toEqual([3, 20, 3, 20]);
    add.dispose();
    expect(read(await mul(x))).toEqual([20]);
  });

  it('runs many calls of one function at once, each with its own result', async () => {
    const square = capture('square', (x: tf.Tensor) => tf.sum(tf.matMul(x, x)), { mode: 'graph' });
    const results = await Promise.all(Array.from({ length: 24 }, (_, i) => square(tf.fill([20, 20], i))));
    expect(results.map((y) => read(y)[0])).toEqual(Array.from({ length: 24 }, (_, i) => i * i * 20 * 20 * 20));
  });

  it('takes names with any letters', async () => {
    for (const name of ['étape 1/2', '', '日本', 'a.b-c_d']) {
      const y = await capture(name, (x: tf.Tensor) => tf.add(x, 1), { mode: 'graph' })(tf.scalar(1));
      expect(read(y)).toEqual([2]);
    }
  });

  it('disposing in flight lets the run end, and later calls record anew', async () => {
    const x = tf.ones([400, 400]);
    const chain = capture('brief', (t: tf.Tensor) => tf.mean(tf.matMul(tf.matMul(t, t), t)), { mode: 'graph' });
    tf.dispose(await chain(x));
    const running = chain(x);
    chain.dispose();
    expect(read(await running)[0]).toBe(160_000);
    expect(read(await chain(x))[0]).toBe(160_000);
  });

  it('eager mode leaves arguments alive and nothing else', async () => {
    const x = tf.tensor1d([1, 2]);
    tf.square(x).dispose();
    const before = tf.memory().numTensors;
    const y = await capture('eager', (t: tf.Tensor) => tf.square(tf.add(t, 1)), { mode: 'eager' })(x);
    expect(tf.memory().numTensors).toBe(before + 1);
    expect(read(x)).toEqual([1, 2]);
    y.dispose();
  });
});

describe('record and trace', () => {
  it('record compiles without running, and tells the number of ops', async () => {
    const f = capture('info', (x: tf.Tensor) => tf.add(tf.mul(x, 1), tf.square(x)), { mode: 'graph' });
    const info = f.record(tf.ones([2]));
    expect(info.ops).toBeLessThan(info.recordedOps);
    expect(f.program?.ops.map((op) => op.type)).toEqual(['Input', 'Square', 'Add']);
    expect(info.milliseconds).toBeGreaterThan(0);
  });

  it('trace gives the program and whatever the function returns, and runs nothing', () => {
    const before = [engine().tensorCount(), tf.memory().numTensors];
    const { program, result } = trace('dry', [{ shape: [2, 3] }, { shape: [3], dtype: 'int32' }], (x, y) => {
      expect(isRecording()).toBe(true);
      return { shape: tf.add(x, tf.cast(y, 'float32')).shape, types: [x.dtype, y.dtype] };
    });
    expect(result).toEqual({ shape: [2, 3], types: ['float32', 'int32'] });
    expect(program.inputs).toHaveLength(2);
    expect(program.ops.map((op) => op.type)).toContain('Add');
    expect([engine().tensorCount(), tf.memory().numTensors]).toEqual(before);
  });

  it('trace of a function that throws leaves the engine usable', async () => {
    expect(() =>
      trace('bad', [{ shape: [2] }], () => {
        throw new Error('mine');
      }),
    ).toThrow('mine');
    await expectUsable();
  });
});
