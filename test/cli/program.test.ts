import { PassThrough } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { errorObject, errorText, exitCodeOf } from '../../src/cli/error-text.ts';
import { listenForInterruption, type SignalSource } from '../../src/cli/interrupt.ts';
import { readCommandTable } from '../../src/cli/main.ts';
import { parseCommandLine } from '../../src/cli/program.ts';
import { type OutputOptions, Writer } from '../../src/cli/writer.ts';
import { AlambicError, EXIT } from '../../src/errors.ts';
import { createColors } from '../../src/loggers/colors.ts';

const table = readCommandTable();

describe('parseCommandLine', () => {
  test('reads arguments and typed options', () => {
    const call = parseCommandLine(table, [
      'train',
      'r.yaml',
      '--set',
      'a.b=1',
      '--set',
      'c=[1, 2]',
      '--seed',
      '7',
      '--limit',
      '2',
      '--resume',
      '--run',
      'runs/x',
      '--no-color',
    ]);
    expect(call).toMatchObject({
      command: 'train',
      args: ['r.yaml'],
      options: { set: ['a.b=1', 'c=[1, 2]'], seed: 7, limit: 2, resume: true, run: 'runs/x', color: false },
    });
    expect(parseCommandLine(table, ['predict', 'm', 'a.png', 'b.png']).args).toEqual(['m', ['a.png', 'b.png']]);
    expect(parseCommandLine(table, ['predict', 'm', 'a.png']).options).toMatchObject({ top: 3 });
    expect(parseCommandLine(table, ['inspect', 'm', '--input', '32x24x3']).options).toMatchObject({
      input: [32, 24, 3],
    });
    expect(parseCommandLine(table, ['train', '--', '--odd-name.yaml']).args).toEqual(['--odd-name.yaml']);
  });

  test('one call does not leave its options to the next', () => {
    parseCommandLine(table, ['train', 'a', '--set', 'x=1']);
    expect(parseCommandLine(table, ['train', 'a', '--set', 'y=2']).options.set).toEqual(['y=2']);
    expect(parseCommandLine(table, ['train', 'a']).options.set).toBeUndefined();
  });

  test('a command that stands behind an option is found', () => {
    expect(() => parseCommandLine(table, ['--quiet', 'trian'])).toThrow(/unknown/);
  });
});

describe('errors', () => {
  const look = { colors: createColors(false), debug: false };

  test('show code, message, place, plugin and way out, and no stack', () => {
    const error = new AlambicError('DATA_EMPTY', 'expected images, found none', {
      hint: 'Check the path.',
      at: 'r.yaml:3:5',
      plugin: 'folder',
    });
    expect(errorText(error, look)).toBe(
      'error expected images, found none [DATA_EMPTY]\n   at r.yaml:3:5\n   in plugin folder\n  try Check the path.',
    );
    expect(errorText(error, { ...look, debug: true })).toMatch(/program\.test\.ts:\d+/);
    expect(errorObject(error)).toEqual({
      type: 'error',
      code: 'DATA_EMPTY',
      message: 'expected images, found none',
      hint: 'Check the path.',
      at: 'r.yaml:3:5',
      plugin: 'folder',
    });
  });

  test('several problems are shown one after another', () => {
    const problems = [new AlambicError('A', 'first'), new AlambicError('B', 'second', { at: 'r.yaml:1:1' })];
    const all = Object.assign(new AlambicError('RECIPE_INVALID', 'two problems'), { problems });
    expect(errorText(all, look)).toBe('error first [A]\n\nerror second [B]\n   at r.yaml:1:1');
    expect(errorObject(all)).toMatchObject({ code: 'RECIPE_INVALID', errors: [{ code: 'A' }, { code: 'B' }] });
  });

  test('an unexpected error has its stack and its causes', () => {
    const text = errorText(new TypeError('oops', { cause: new Error('deep') }), look);
    expect(text).toContain('unexpected error oops');
    expect(text).toMatch(/program\.test\.ts:\d+/);
    expect(text).toContain('caused by Error: deep');
    expect(errorText('a string', look)).toContain('unexpected error a string');
    expect(errorText(null, look)).toContain('unexpected error null');
  });

  test('a full disk is not a fault of ours', () => {
    const text = errorText(Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC' }), look);
    expect(text).toContain('Free some space');
    expect(text).not.toMatch(/program\.test\.ts/);
  });

  test('exit codes', () => {
    const codes: [string, number][] = [
      ['UNKNOWN_OPTION', EXIT.usage],
      ['RECIPE_INVALID', EXIT.usage],
      ['DATA_EMPTY', EXIT.usage],
      ['RUN_FOLDER_HOLDS_RUN', EXIT.usage],
      ['TENSORFLOW_INTERNAL', EXIT.failure],
      ['OUT_OF_MEMORY', EXIT.failure],
      ['NOT_FINITE', EXIT.failure],
      ['CHECKPOINT_NO_SPACE', EXIT.failure],
      ['INTERRUPTED', EXIT.interrupted],
    ];
    for (const [code, exit] of codes) expect([code, exitCodeOf(new AlambicError(code, 'x'))]).toEqual([code, exit]);
    expect(exitCodeOf(new Error('x'))).toBe(EXIT.failure);
  });
});

describe('Writer', () => {
  function written(options: OutputOptions, isTTY: boolean, env: Record<string, string> = {}) {
    const stdout = Object.assign(new PassThrough(), { isTTY, columns: 80 });
    const stderr = Object.assign(new PassThrough(), { isTTY });
    const writer = new Writer({ stdout, stderr, env }, options);
    writer.line('on the way');
    writer.result(writer.colors.bold('the result'), { value: Number.NaN });
    writer.warn('careful');
    return { mode: writer.mode, out: String(stdout.read() ?? ''), err: String(stderr.read() ?? '') };
  }

  test('live on a terminal, plain elsewhere, in CI and on a dumb one', () => {
    expect(written({}, true)).toMatchObject({ mode: 'live', out: 'on the way\n\u001b[1mthe result\u001b[22m\n' });
    expect(written({}, false)).toMatchObject({
      mode: 'plain',
      out: 'on the way\nthe result\n',
      err: 'warning careful\n',
    });
    expect(written({}, true, { CI: '1' }).mode).toBe('plain');
    expect(written({}, true, { TERM: 'dumb' }).mode).toBe('plain');
  });

  test('--quiet keeps the result and warnings, --json writes objects only', () => {
    expect(written({ quiet: true }, false)).toMatchObject({ out: 'the result\n', err: 'warning careful\n' });
    expect(written({ json: true }, true).out).toBe('{"value":"NaN"}\n');
  });

  test('NO_COLOR, --no-color and FORCE_COLOR', () => {
    expect(written({}, true, { NO_COLOR: '1' }).out).not.toContain('\u001b');
    expect(written({ color: false }, true).out).not.toContain('\u001b');
    expect(written({}, false, { FORCE_COLOR: '1' }).out).toContain('\u001b');
    expect(written({}, false, { FORCE_COLOR: '0' }).out).not.toContain('\u001b');
  });
});

describe('interruption', () => {
  test('the first signal saves and says so, the second ends the process; both are given back', () => {
    const listeners = new Map<string, (name: 'SIGINT' | 'SIGTERM') => void>();
    const exits: number[] = [];
    const notices: string[] = [];
    const source: SignalSource = {
      on: (name, listener) => listeners.set(name, listener),
      off: (name, listener) => listeners.get(name) === listener && listeners.delete(name),
      exit: (code) => exits.push(code),
    };
    const { signal, dispose } = listenForInterruption({ warn: (text) => notices.push(text) }, undefined, source);
    expect(signal.aborted).toBe(false);
    listeners.get('SIGINT')!('SIGINT');
    expect([signal.aborted, signal.reason, exits]).toEqual([true, 'SIGINT', []]);
    expect(notices).toEqual([expect.stringContaining('saving a checkpoint')]);
    listeners.get('SIGTERM')!('SIGTERM');
    expect(exits).toEqual([EXIT.interrupted]);
    dispose();
    expect(listeners.size).toBe(0);
  });
});
