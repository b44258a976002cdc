import type { Tensor } from '@tensorflow/tfjs-core';
import { placeholder } from '../engine/capture.ts';
import { deriveKey, type Key } from '../engine/random.ts';
import { AlambicError, unknownName } from '../errors.ts';
import type { BufferSpec, Init, Mode, Role, Scope, Shape, Tensors } from './module.ts';

/** What the scopes of one forward pass share: where names lead to. */
interface Pass {
  modeAt(path: string): Mode;
  param(name: string, shape: Shape, init: Init, role: Role): Tensor;
  buffer(name: string, shape: Shape, init: Init): Tensor;
  update(name: string, value: Tensor, mode: Mode): void;
  enter(path: string): void;
  tap(name: string, value: Tensor): void;
  random(path: string, purpose: string): Key;
}

/** A place in a pass: joins names to dotted paths, and leaves the rest to the pass. */
class PathScope implements Scope {
  readonly path: string;
  readonly mode: Mode;
  readonly #pass: Pass;

  constructor(pass: Pass, path: string) {
    this.#pass = pass;
    this.path = path;
    this.mode = pass.modeAt(path);
    pass.enter(path);
  }

  param(name: string, shape: Shape, init: Init, role: Role): Tensor {
    return this.#pass.param(this.#join(name), shape, init, role);
  }

  buffer(name: string, shape: Shape, init: Init): Tensor {
    return this.#pass.buffer(this.#join(name), shape, init);
  }

  update(name: string, value: Tensor): void {
    this.#pass.update(this.#join(name), value, this.mode);
  }

  child(name: string): Scope {
    return new PathScope(this.#pass, this.#join(name));
  }

  tap(name: string, value: Tensor): Tensor {
    const full = this.#join(name);
    // The root itself has no name: its output is the pass's result.
    if (full !== '') this.#pass.tap(full, value);
    return value;
  }

  random(purpose: string): Key {
    return this.#pass.random(this.path, purpose);
  }

  #join(name: string): string {
    if (name === '') return this.path;
    return this.path === '' ? name : `${this.path}.${name}`;
  }
}

/** Whether a dotted prefix covers a dotted name: `layer1.0` covers itself and `layer1.0.conv1`, not `layer1.01`; '' covers all. */
export function coversName(prefix: string, name: string): boolean {
  return prefix === '' || name === prefix || name.startsWith(`${prefix}.`);
}

/** Taps in the order of the pass. The second call of a shared module publishes `name#2`, and so on. */
class TapRecord {
  readonly values = new Map<string, Tensor>();

  add(name: string, value: Tensor): void {
    let unique = name;
    for (let call = 2; this.values.has(unique); call++) unique = `${name}#${call}`;
    this.values.set(unique, value);
  }
}

/** A parameter or buffer met in a dry run, with the symbol that stands for it. */
export interface Declared {
  readonly shape: Shape;
  readonly init: Init;
  /** Absent for buffers. */
  readonly role: Role | undefined;
  readonly symbol: Tensor;
}

/**
 * The scope of a dry run: every parameter and buffer is a placeholder, and what is asked for is written down. Only inside `trace`.
 *
 * A name may be asked for again only by the module that declared it (the same initialiser object, shape and role): so one module called
 * twice shares its parameters, and two modules that were given the same name by mistake are the error DUPLICATE_PARAMETER.
 */
export class DescribingPass implements Pass {
  readonly declared = new Map<string, Declared>();
  readonly #taps = new TapRecord();

  get root(): Scope {
    return new PathScope(this, '');
  }

  get taps(): ReadonlyMap<string, Tensor> {
    return this.#taps.values;
  }

  get buffers(): BufferSpec[] {
    return [...this.declared].filter(([, { role }]) => role === undefined).map(([name, spec]) => ({ name, ...spec }));
  }

  modeAt(): Mode {
    return 'infer';
  }

  enter(): void {}

  param(name: string, shape: Shape, init: Init, role: Role): Tensor {
    return this.#declare(name, shape, init, role);
  }

  buffer(name: string, shape: Shape, init: Init): Tensor {
    return this.#declare(name, shape, init, undefined);
  }

  update(name: string, value: Tensor): void {
    const declared = this.declared.get(name);
    if (declared === undefined) throw unknownBuffer(name, this.buffers);
    checkShape(name, declared.shape, value.shape);
  }

  tap(name: string, value: Tensor): void {
    this.#taps.add(name, value);
  }

  random(path: string, purpose: string): Key {
    return { seed: 0, path: `${path}/${purpose}`, step: 0 };
  }

  #declare(name: string, shape: Shape, init: Init, role: Role | undefined): Tensor {
    if (!shape.every((size) => Number.isInteger(size) && size >= 0)) {
      throw new AlambicError('SHAPE_MISMATCH', `${name}: expected a shape of whole numbers, got [${shape}]`, {
        hint: 'Often an input that is too small or of the wrong rank for the network.',
      });
    }
    const known = this.declared.get(name);
    if (known === undefined) {
      const symbol = placeholder(shape);
      this.declared.set(name, { shape, init, role, symbol });
      return symbol;
    }
    if (known.init !== init || known.role !== role || known.shape.join() !== shape.join()) {
      throw new AlambicError(
        'DUPLICATE_PARAMETER',
        `"${name}" is declared twice: ${known.role ?? 'buffer'} [${known.shape}], then ${role ?? 'buffer'} [${shape}]`,
        {
          hint:
            'Give each module a child scope of its own: scope.child(name). To share parameters, call one module object twice, ' +
            'with initialisers that are made once, in its constructor.',
        },
      );
    }
    return known.symbol;
  }
}

export interface ApplyingOptions {
  readonly mode: Mode;
  /** Mode by dotted prefix; the longest that covers a scope's path wins. */
  readonly modes?: Readonly<Record<string, Mode>>;
  /** Of the random numbers of this pass; needed where something random runs. */
  readonly key?: Key;
}

/** The scope of a forward pass over given values. */
export class ApplyingPass implements Pass {
  /** New values of buffers, of modules in mode `train`. */
  readonly updates: Tensors = {};
  readonly #params: Readonly<Tensors>;
  readonly #buffers: Readonly<Tensors>;
  readonly #options: ApplyingOptions;
  readonly #prefixes: readonly string[];
  readonly #unused: Set<string>;
  readonly #paths = new Set<string>();
  readonly #taps = new TapRecord();
  readonly #draws = new Map<string, number>();

  constructor(params: Readonly<Tensors>, buffers: Readonly<Tensors>, options: ApplyingOptions) {
    this.#params = params;
    this.#buffers = buffers;
    this.#options = options;
    this.#prefixes = Object.keys(options.modes ?? {}).sort((a, b) => b.length - a.length);
    this.#unused = new Set(this.#prefixes);
  }

  get root(): Scope {
    return new PathScope(this, '');
  }

  get taps(): Map<string, Tensor> {
    return this.#taps.values;
  }

  modeAt(path: string): Mode {
    const prefix = this.#prefixes.find((candidate) => coversName(candidate, path));
    return prefix === undefined ? this.#options.mode : this.#options.modes![prefix]!;
  }

  enter(path: string): void {
    this.#paths.add(path);
    for (const prefix of this.#unused) if (coversName(prefix, path)) this.#unused.delete(prefix);
  }

  param(name: string, shape: Shape): Tensor {
    return read('parameter', this.#params, name, shape);
  }

  buffer(name: string, shape: Shape): Tensor {
    // A module that runs twice in one pass goes on from its own update.
    return this.updates[name] ?? read('buffer', this.#buffers, name, shape);
  }

  update(name: string, value: Tensor, mode: Mode): void {
    const known = this.#buffers[name];
    if (known === undefined) throw unknownName('MISSING_PARAMETER', 'buffer', name, Object.keys(this.#buffers));
    checkShape(name, known.shape, value.shape);
    if (mode === 'train') this.updates[name] = value;
  }

  tap(name: string, value: Tensor): void {
    this.#taps.add(name, value);
  }

  random(path: string, purpose: string): Key {
    const { key } = this.#options;
    if (key === undefined) {
      throw new AlambicError(
        'RANDOM_KEY_MISSING',
        `"${path}" wants random numbers (${purpose}) and the pass has no key`,
        {
          hint: 'Pass `key: makeKey(seed, path, step)` to applyModule.',
        },
      );
    }
    const place = `${path}/${purpose}`;
    const draw = (this.#draws.get(place) ?? 0) + 1;
    this.#draws.set(place, draw);
    return deriveKey(key, draw === 1 ? place : `${place}#${draw}`);
  }

  /** Throws UNKNOWN_MODULE for a prefix of `modes` that no module lies under: its mode would silently not apply. */
  finish(): void {
    const [unused] = this.#unused;
    if (unused !== undefined) throw unknownName('UNKNOWN_MODULE', 'module', unused, [...this.#paths].filter(Boolean));
  }
}

function read(what: string, tensors: Readonly<Tensors>, name: string, shape: Shape): Tensor {
  const tensor = tensors[name];
  if (tensor === undefined) {
    throw unknownName('MISSING_PARAMETER', what, name, Object.keys(tensors), {
      hint: `The network asks for a ${what} that its state does not hold. Was the state made for another architecture?`,
    });
  }
  checkShape(name, shape, tensor.shape);
  return tensor;
}

function checkShape(name: string, expected: Shape, got: Shape): void {
  if (expected.length === got.length && expected.every((size, i) => size === got[i])) return;
  throw new AlambicError('SHAPE_MISMATCH', `${name}: expected shape [${expected}], got [${got}]`, {
    hint: 'Does the state (or the input size, channels and number of classes) belong to this network?',
  });
}

function unknownBuffer(name: string, buffers: readonly BufferSpec[]): AlambicError {
  return unknownName(
    'MISSING_PARAMETER',
    'buffer',
    name,
    buffers.map((buffer) => buffer.name),
  );
}
