import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { castFloat, valueAndGradients } from '../engine/kernels/index.ts';
import { deriveKey, type Key, makeKey } from '../engine/random.ts';
import { AlambicError, unknownName } from '../errors.ts';
import type { Mode, ModelState, Module, Role, Tensors } from '../nn/module.ts';
import { accumulate, emptyAccumulator } from '../optim/accumulate.ts';
import { clipByGlobalNorm, clipByValue } from '../optim/clip.ts';
import { updateEma } from '../optim/ema.ts';
import { allFinite } from '../optim/finite.ts';
import type { BatchView, Optimizer, Term, Transform } from '../plugin-host/contract.ts';
import type { NamedStrategy, Plan } from './groups.ts';
import type { TrainState } from './state.ts';
import { type BoundModel, StepContext, tensorsBelow } from './views.ts';

/** How images become what a network wants: bytes / 255, transforms, normalisation. */
export interface Preparation {
  readonly transforms: readonly Transform[];
  readonly mean: readonly number[];
  readonly std: readonly number[];
}

export interface ClipRule {
  readonly norm?: number | undefined;
  readonly value?: number | undefined;
}

export interface EmaRule {
  readonly decay: number;
  readonly warmup: boolean;
}

/** Everything static about a stage's step in one phase. A new phase makes a new definition, and so a new recording. */
export interface StepDefinition {
  /** Path of the stage's random streams. */
  readonly stage: string;
  readonly seed: number;
  readonly student: Module;
  readonly teachers: Readonly<Record<string, { readonly module: Module; readonly mode: Mode }>>;
  /** Strategies' own modules by full name `strategies.<strategy>.<module>`. */
  readonly modules: Readonly<Record<string, Module>>;
  readonly strategies: readonly NamedStrategy[];
  readonly optimizer: Optimizer;
  readonly roles: ReadonlyMap<string, Role>;
  readonly plan: Plan;
  readonly preparation: Preparation;
  readonly clip: ClipRule | undefined;
  readonly ema: EmaRule | undefined;
  readonly accumulates: boolean;
  readonly cyclesMomentum: boolean;
  /** Names of the terms, `<strategy>/<term>`, in the order of the weights among the knobs. */
  readonly termNames: readonly string[];
  /** Told at recording which trainable parameters no term reaches. */
  readonly onUnreached?: (names: readonly string[]) => void;
}

export interface DeviceBatch {
  /** uint8 [N,H,W,C]. */
  readonly images: Tensor;
  /** int32 [N]; -1 = no label. */
  readonly labels: Tensor;
  readonly [key: string]: Tensor;
}

/** Values that change from step to step without being state, in one float32 vector: one upload. */
export interface KnobValues {
  /** Rate of each group, in the order of the plan. */
  readonly rates: readonly number[];
  /** Weight of each term. */
  readonly weights: readonly number[];
  /** Items of the whole update (all its batches), and those of them with a label. */
  readonly items: number;
  readonly labelled: number;
  readonly momentum: number;
}

export function packKnobs(knobs: KnobValues): Float32Array {
  return Float32Array.of(...knobs.rates, ...knobs.weights, knobs.items, knobs.labelled, knobs.momentum);
}

/** What a step reports, in one float32 vector: one read. */
export interface StepMetrics {
  readonly total: number;
  readonly finite: boolean;
  /** Global norm of the gradient before clipping. 0 for a batch that did not end an update. */
  readonly gradientNorm: number;
  /** Each term, unweighted; batches of one update add up to the mean over its items. */
  readonly terms: readonly number[];
}

export function unpackMetrics(values: Float32Array): StepMetrics {
  return {
    total: values[0]!,
    finite: values[1]! === 1,
    gradientNorm: values[2]!,
    terms: Array.from(values.subarray(3)),
  };
}

/** float32 [N,H,W,C] as a network wants it, from the decoded bytes. */
export function prepareImages(images: Tensor, preparation: Preparation, key: Key, training: boolean): Tensor {
  return normaliseImages(transformImages(scaleImages(images), preparation, key, training), preparation);
}

/** Bytes as float32 in 0..1. */
function scaleImages(images: Tensor): Tensor {
  return tf.mul(castFloat(images), 1 / 255);
}

function transformImages(images: Tensor, { transforms }: Preparation, key: Key, training: boolean): Tensor {
  return transforms.reduce<Tensor>(
    (x, transform, i) => transform.call(x, { key: deriveKey(key, `transforms/${i}`), training }),
    images,
  );
}

function normaliseImages(x: Tensor, preparation: Preparation): Tensor {
  const channels = x.shape[x.rank - 1]!;
  const spread = (values: readonly number[], what: string) => {
    if (values.length !== 1 && values.length !== channels) {
      throw new AlambicError(
        'PREPROCESSING_CHANNELS',
        `expected 1 or ${channels} values for ${what}, got ${values.length}`,
      );
    }
    return tf.tensor1d(Array.from({ length: channels }, (_, i) => values[i % values.length]!));
  };
  const std = spread(preparation.std, 'std');
  const mean = spread(preparation.mean, 'mean');
  return tf.mul(tf.sub(x, mean), tf.div(1, std));
}

/** A loss as its share of the update's mean, by the rule of `Term`. */
function shareOfMean(name: string, term: Term, batch: BatchView, items: Tensor, labelled: Tensor): Tensor {
  const { loss } = term;
  if (loss.dtype !== 'float32')
    throw new AlambicError('TERM_TYPE', `term "${name}" must be float32, got ${loss.dtype}`);
  if (loss.rank === 0) return tf.mul(loss, tf.div(batch.size, items));
  if (loss.rank !== 1 || loss.shape[0] !== batch.size) {
    throw new AlambicError(
      'TERM_SHAPE',
      `term "${name}" must be a scalar or one loss per item [${batch.size}], got [${loss.shape}]`,
      {
        hint: 'Sum or average over everything but the batch; the step averages over the items.',
      },
    );
  }
  if (term.over === 'labelled') {
    return tf.div(tf.sum(tf.mul(loss, batch.labelled)), tf.maximum(labelled, 1));
  }
  return tf.div(tf.sum(loss), items);
}

/** The terms of all strategies under `<strategy>/<term>`. */
export function collectTerms(strategies: readonly NamedStrategy[], context: StepContext): Map<string, Term> {
  const terms = new Map<string, Term>();
  for (const { name, strategy } of strategies) {
    for (const [term, value] of Object.entries(strategy.terms?.(context.viewFor(name)) ?? {})) {
      if (!(value?.loss instanceof tf.Tensor)) {
        const got = value === undefined || value === null ? String(value) : `a loss of type ${typeof value.loss}`;
        throw new AlambicError('TERM_SHAPE', `term "${name}/${term}" must be { loss: tensor }, got ${got}`, {
          hint: 'Return the tensor from terms(), and from call() of a loss.',
          plugin: name,
        });
      }
      terms.set(`${name}/${term}`, value);
    }
  }
  if (terms.size === 0) {
    throw new AlambicError('NO_TERMS', 'no strategy of the stage gives a loss', {
      hint: 'Add a strategy with a loss, for instance `supervised` or `distillation`.',
    });
  }
  return terms;
}

/** The parts of a step that need no gradient: batch on the device, bound networks, random key. */
export function buildContext(
  definition: StepDefinition,
  state: Pick<TrainState, 'params' | 'buffers' | 'counters'>,
  teachers: Readonly<Record<string, ModelState>>,
  batch: DeviceBatch,
): StepContext {
  const key = makeKey(definition.seed, `stages/${definition.stage}`, state.counters.batches);
  const { preparation } = definition;
  const raw = scaleImages(batch.images);
  const view: BatchView = {
    raw,
    normalise: (images) => normaliseImages(images, preparation),
    images: normaliseImages(transformImages(raw, preparation, key, true), preparation),
    labels: batch.labels,
    labelled: tf.cast(tf.greaterEqual(batch.labels, tf.scalar(0, 'int32')), 'float32'),
    size: batch.labels.shape[0]!,
  };
  const own = (tensors: Tensors, name: string) => tensorsBelow(tensors, name);
  const notOwn = (tensors: Tensors) =>
    Object.fromEntries(Object.entries(tensors).filter(([name]) => !name.startsWith('strategies.')));
  return new StepContext({
    batch: view,
    student: {
      module: definition.student,
      state: { params: notOwn(state.params), buffers: notOwn(state.buffers) },
      mode: 'train',
      modes: definition.plan.modes,
    },
    teachers: Object.fromEntries(
      Object.entries(definition.teachers).map(([name, teacher]): [string, BoundModel] => [
        name,
        { module: teacher.module, state: teachers[name]!, mode: teacher.mode, modes: {} },
      ]),
    ),
    modules: Object.fromEntries(
      Object.entries(definition.modules).map(([name, module]): [string, BoundModel] => [
        name,
        {
          module,
          state: { params: own(state.params, name), buffers: own(state.buffers, name) },
          mode: 'train',
          modes: {},
        },
      ]),
    ),
    key,
  });
}

/** Buffers after the forward passes of a step, by full name. */
function movedBuffers(context: StepContext): Tensors {
  const moved: Tensors = { ...context.studentBuffers };
  for (const [module, buffers] of Object.entries(context.moduleBuffers)) {
    for (const [name, value] of Object.entries(buffers)) moved[`${module}.${name}`] = value;
  }
  return moved;
}

/**
 * One batch of a stage as a pure function: forward, terms, gradients, accumulation; and, where `last` says that the batch ends an
 * update, clipping, optimizer, EMA and the strategies' `update`. Recorded by `capture`, or run as it is by the eager engine.
 *
 * The step never selects between old and new values where a gradient is not finite: it reports it, and the caller keeps the old tree.
 */
export function makeStep(definition: StepDefinition, last: boolean) {
  const { plan, strategies, termNames } = definition;
  const trainable = [...plan.assignments].filter(([, assignment]) => assignment.trainable).map(([name]) => name);
  const groupIndex = new Map(plan.groups.map(({ name }, i) => [name, i]));

  return (
    state: TrainState,
    teachers: Readonly<Record<string, ModelState>>,
    batch: DeviceBatch,
    knobs: Tensor,
  ): { state: TrainState; metrics: Tensor } => {
    const knob = tf.unstack(knobs);
    const rates = knob.slice(0, plan.groups.length);
    const weights = knob.slice(plan.groups.length, plan.groups.length + termNames.length);
    const [items, labelled, momentum] = knob.slice(plan.groups.length + termNames.length) as [Tensor, Tensor, Tensor];

    const context = buildContext(definition, state, teachers, batch);
    context.runTeachers();
    const { loss, gradients, aux } = valueAndGradients(
      () => {
        const terms = collectTerms(strategies, context);
        const values = termNames.map((name) => {
          const term = terms.get(name);
          if (term === undefined) throw unknownName('UNKNOWN_TERM', 'term', name, terms.keys());
          return shareOfMean(name, term, context.viewFor('').batch, items, labelled);
        });
        const weighted = values.map((value, i) => tf.mul(value, weights[i]!) as tf.Scalar);
        return {
          loss: weighted.length === 1 ? weighted[0]! : tf.addN(weighted),
          aux: { terms: tf.stack(values), buffers: movedBuffers(context) },
        };
      },
      Object.fromEntries(trainable.map((name) => [name, state.params[name]!])),
    );
    const buffers = aux.buffers as Tensors;
    const terms = aux.terms as Tensor;
    const unreached = trainable.filter((name) => gradients[name] === undefined);
    if (unreached.length > 0) definition.onUnreached?.(unreached);

    const one = tf.scalar(1, 'int32');
    const batches = tf.add(state.counters.batches, one);
    const sums = definition.accumulates ? accumulate(state.accumulator, gradients) : gradients;

    const report = (finite: Tensor, norm: Tensor) => tf.concat([tf.stack([loss, finite, norm]), terms]);

    if (!last) {
      return {
        state: { ...state, buffers, accumulator: sums, counters: { ...state.counters, batches } },
        metrics: report(tf.scalar(1), tf.scalar(0)),
      };
    }

    let update: Tensors = sums;
    const finite = tf.cast(tf.logicalAnd(allFinite(sums), tf.isFinite(loss)), 'float32');
    const clipped = clipByGlobalNorm(update, definition.clip?.norm ?? Number.POSITIVE_INFINITY);
    update = clipped.gradients;
    if (definition.clip?.value !== undefined) update = clipByValue(update, definition.clip.value);

    const params: Tensors = { ...state.params };
    const slots: Record<string, Tensors> = { ...state.slots };
    for (const name of trainable) {
      const gradient = update[name];
      if (gradient === undefined || gradients[name] === undefined) continue;
      const assignment = plan.assignments.get(name)!;
      const result = definition.optimizer.update(name, state.params[name]!, gradient, state.slots[name]!, {
        rate: rates[groupIndex.get(assignment.group)!]!,
        ...(definition.cyclesMomentum ? { momentum } : {}),
        role: definition.roles.get(name)!,
        decay: assignment.decay,
      });
      params[name] = result.value;
      slots[name] = result.slots;
    }

    applyStrategyUpdates(definition, state, teachers, batch, params, buffers);

    const ema =
      definition.ema === undefined
        ? state.ema
        : updateEma(state.ema, { params: studentOf(params), buffers: studentOf(buffers) }, definition.ema);
    const accumulator = definition.accumulates ? emptyAccumulator(state.accumulator) : state.accumulator;
    return {
      state: {
        params,
        buffers,
        slots,
        ema,
        accumulator,
        scaler: state.scaler,
        counters: { ...state.counters, updates: tf.add(state.counters.updates, one), batches },
      },
      metrics: report(finite, clipped.norm),
    };
  };
}

function studentOf(tensors: Tensors): Tensors {
  return Object.fromEntries(Object.entries(tensors).filter(([name]) => !name.startsWith('strategies.')));
}

/** Runs the strategies' `update` and puts its values into `params` and `buffers`. */
function applyStrategyUpdates(
  definition: StepDefinition,
  state: TrainState,
  teachers: Readonly<Record<string, ModelState>>,
  batch: DeviceBatch,
  params: Tensors,
  buffers: Tensors,
): void {
  const updating = definition.strategies.filter(({ strategy }) => strategy.update !== undefined);
  if (updating.length === 0) return;
  // The forward passes of the terms are gone with the gradient's scope. They are stated again; equal ops merge in the program.
  const context = buildContext(definition, state, teachers, batch);
  context.runTeachers();
  for (const { name, strategy } of updating) {
    const prefix = `strategies.${name}`;
    const view = Object.defineProperties({}, Object.getOwnPropertyDescriptors(context.viewFor(name))) as ReturnType<
      StepContext['viewFor']
    >;
    const updates = strategy.update!(
      Object.assign(view, {
        params: studentOf(params),
        buffers: studentOf(buffers),
        values: (module: string) => ({
          ...tensorsBelow(params, `${prefix}.${module}`),
          ...tensorsBelow(buffers, `${prefix}.${module}`),
        }),
      }),
    );
    for (const [key, value] of Object.entries(updates)) {
      const full = `${prefix}.${key}`;
      const target = full in params ? params : full in buffers ? buffers : undefined;
      if (target === undefined) {
        const known = [...Object.keys(params), ...Object.keys(buffers)]
          .filter((candidate) => candidate.startsWith(`${prefix}.`))
          .map((candidate) => candidate.slice(prefix.length + 1));
        throw unknownName('UNKNOWN_STATE', `state of strategy "${name}"`, key, known);
      }
      if (!tf.util.arraysEqual(target[full]!.shape, value.shape)) {
        throw new AlambicError(
          'SHAPE_MISMATCH',
          `update of ${full}: expected shape [${target[full]!.shape}], got [${value.shape}]`,
        );
      }
      target[full] = value;
    }
  }
}
