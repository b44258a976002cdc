import type { Tensor } from '@tensorflow/tfjs-core';
import { stopGradient } from '../engine/kernels/index.ts';
import { deriveKey, type Key } from '../engine/random.ts';
import { AlambicError, unknownName } from '../errors.ts';
import { applyModule } from '../nn/describe.ts';
import type { Mode, ModelState, Module, Tensors } from '../nn/module.ts';
import type { BatchView, ForwardView, StepView } from '../plugin-host/contract.ts';

/** A network of the stage with its present values. */
export interface BoundModel {
  readonly module: Module;
  readonly state: ModelState;
  readonly mode: Mode;
  readonly modes: Readonly<Record<string, Mode>>;
}

function matcher(pattern: string): RegExp {
  const text = pattern
    .split('*')
    .map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'))
    .join('.*');
  return new RegExp(`^${text}$`);
}

function forwardView(output: Tensor, taps: ReadonlyMap<string, Tensor>): ForwardView {
  return {
    output,
    tap: (name) => {
      const value = taps.get(name);
      if (value === undefined) throw unknownName('UNKNOWN_TAP', 'tap', name, taps.keys());
      return value;
    },
    taps: (pattern) => {
      const expression = matcher(pattern);
      const found = [...taps].filter(([name]) => expression.test(name));
      if (found.length === 0) throw unknownName('UNKNOWN_TAP', 'tap', pattern, taps.keys());
      return found;
    },
  };
}

export interface StepContextInput {
  readonly batch: BatchView;
  readonly student: BoundModel;
  readonly teachers: Readonly<Record<string, BoundModel>>;
  /** The strategies' own modules by full name (`strategies.<strategy>.<module>`). */
  readonly modules: Readonly<Record<string, BoundModel>>;
  readonly key: Key;
}

/**
 * The one forward of each network in a recorded step, shared by all strategies. Running statistics that a forward pass moves are
 * collected here; a second pass through the same network sees the moved ones.
 */
export class StepContext {
  /** Buffers as they are now: the state's, with the updates of the passes so far. */
  readonly studentBuffers: Record<string, Tensor>;
  /** Buffers of the strategies' modules, by full module name. */
  readonly moduleBuffers: Record<string, Record<string, Tensor>>;
  readonly #input: StepContextInput;
  #student: ForwardView | undefined;
  readonly #teachers: Record<string, ForwardView> = {};
  #passes = 0;

  constructor(input: StepContextInput) {
    this.#input = input;
    this.studentBuffers = { ...input.student.state.buffers };
    this.moduleBuffers = Object.fromEntries(
      Object.entries(input.modules).map(([name, bound]) => [name, { ...bound.state.buffers }]),
    );
  }

  /** Runs the teachers; called before gradients are recorded, so that nothing of theirs is kept for a backward pass. */
  runTeachers(): void {
    for (const name of Object.keys(this.#input.teachers))
      this.#teachers[name] = this.#runTeacher(name, this.#input.batch.images);
  }

  /** The view that a strategy gets. */
  viewFor(strategy: string): StepView {
    const { batch, key } = this.#input;
    const student = () => {
      this.#student ??= this.#runStudent(batch.images, 'student');
      return this.#student;
    };
    return {
      batch,
      get student() {
        return student();
      },
      teachers: this.#teachers,
      forward: (model, images) => {
        if (model === 'student') return this.#runStudent(images, `student/${this.#passes++}`);
        if (this.#input.teachers[model] === undefined) {
          throw unknownName('UNKNOWN_MODEL', 'model of this stage', model, [
            'student',
            ...Object.keys(this.#input.teachers),
          ]);
        }
        return this.#runTeacher(model, images);
      },
      module: (name, x) => this.#runModule(`strategies.${strategy}.${name}`, x).output,
      forwardModule: (name, x) => this.#runModule(`strategies.${strategy}.${name}`, x),
      buffer: (module, name) => {
        const buffers = this.moduleBuffers[`strategies.${strategy}.${module}`] ?? {};
        const value = buffers[name];
        if (value === undefined)
          throw unknownName('UNKNOWN_BUFFER', `buffer of module "${module}"`, name, Object.keys(buffers));
        return value;
      },
      random: (purpose) => deriveKey(key, `${strategy}/${purpose}`),
    };
  }

  #runStudent(images: Tensor, purpose: string): ForwardView {
    const { student, key } = this.#input;
    const state = { params: student.state.params, buffers: this.studentBuffers };
    const result = applyModule(student.module, state, images, {
      mode: student.mode,
      modes: student.modes,
      key: deriveKey(key, purpose),
    });
    Object.assign(this.studentBuffers, result.updates);
    return forwardView(result.output, result.taps);
  }

  #runTeacher(name: string, images: Tensor): ForwardView {
    const teacher = this.#input.teachers[name]!;
    const result = applyModule(teacher.module, teacher.state, stopGradient(images), {
      mode: teacher.mode,
      modes: teacher.modes,
      key: deriveKey(this.#input.key, `teacher/${name}`),
    });
    return forwardView(result.output, result.taps);
  }

  #runModule(name: string, x: Tensor): ForwardView {
    const bound = this.#input.modules[name];
    if (bound === undefined) {
      throw new AlambicError(
        'UNKNOWN_MODULE',
        `the strategy asked for its module "${name}", which its modules() does not declare`,
        {
          hint: `Declared: ${Object.keys(this.#input.modules).join(', ') || 'none'}.`,
        },
      );
    }
    const buffers = this.moduleBuffers[name]!;
    const result = applyModule(bound.module, { params: bound.state.params, buffers }, x, {
      mode: bound.mode,
      modes: bound.modes,
      key: deriveKey(this.#input.key, name),
    });
    Object.assign(buffers, result.updates);
    return forwardView(result.output, result.taps);
  }
}

/** Splits a record of tensors by the full name of the strategy module that each belongs to. */
export function tensorsBelow(tensors: Readonly<Tensors>, prefix: string): Tensors {
  const below: Tensors = {};
  for (const [name, tensor] of Object.entries(tensors)) {
    if (name.startsWith(`${prefix}.`)) below[name.slice(prefix.length + 1)] = tensor;
  }
  return below;
}
