import { placeholder, trace } from '../engine/capture.ts';
import { describeModule } from '../nn/describe.ts';
import type { BufferSpec, ParameterSpec, Role, Tensors } from '../nn/module.ts';
import type { BuildView, GroupRow, ParameterTree, Position, StrategyModule, Term } from '../plugin-host/contract.ts';
import { groupRows, type Plan, parameterTree, planGroups } from './groups.ts';
import type { StageInput } from './stage-input.ts';
import { buildContext, collectTerms, type StepDefinition } from './step.ts';

/** One named loss of a stage. */
export interface StageTerm {
  /** `<strategy>/<term>`. */
  readonly name: string;
  /** Its own weight; a strategy's `weights` may move it. */
  readonly weight: number;
  readonly shape: readonly number[];
}

/** What is known of a stage before it trains: shown by `check`, and the basis of the step. */
export interface StageLayout {
  readonly tree: ParameterTree;
  readonly plan: Plan;
  readonly rows: readonly GroupRow[];
  readonly terms: readonly StageTerm[];
  readonly modules: Readonly<Record<string, StrategyModule>>;
  readonly ownParameters: readonly ParameterSpec[];
  readonly ownBuffers: readonly BufferSpec[];
  /** Multiply-accumulates of one item's forward passes, teachers included. */
  readonly macs: number;
}

/** What a stage is made of in its present phase, found without a value: groups, terms, the strategies' own modules, the step. */
export class StageBlueprint {
  readonly input: StageInput;
  /** The strategies' own modules by full name `strategies.<strategy>.<module>`. */
  readonly modules: Readonly<Record<string, StrategyModule>>;
  readonly ownParameters: readonly ParameterSpec[];
  readonly ownBuffers: readonly BufferSpec[];
  readonly #tree: ParameterTree;
  readonly #roles: ReadonlyMap<string, Role>;
  #plan: Plan;
  #terms: readonly StageTerm[];

  constructor(input: StageInput, position: Position) {
    this.input = input;
    const build: BuildView = {
      student: input.student.description,
      network: input.student.backbone,
      teachers: Object.fromEntries(
        Object.entries(input.teachers).map(([name, { description }]) => [name, description]),
      ),
      labels: input.labels,
      batchSize: input.loader.batchSize,
    };
    for (const { strategy } of input.strategies) strategy.check?.(build);
    const modules: Record<string, StrategyModule> = {};
    const parameters: ParameterSpec[] = [];
    const buffers: BufferSpec[] = [];
    const trained: ParameterSpec[] = [];
    for (const { name, strategy } of input.strategies) {
      for (const [key, own] of Object.entries(strategy.modules?.(build) ?? {})) {
        const full = `strategies.${name}.${key}`;
        // Depth groups are the student's: a copy of its network below a strategy has none of its own.
        const description = describeModule({ call: (scope, x) => own.module.call(scope, x) }, own.inputShape);
        const named = description.parameters.map((spec) => ({ ...spec, name: `${full}.${spec.name}` }));
        modules[full] = own;
        parameters.push(...named);
        buffers.push(...description.buffers.map((spec) => ({ ...spec, name: `${full}.${spec.name}` })));
        if (own.trainable !== false) trained.push(...named);
      }
    }
    this.modules = modules;
    this.ownParameters = parameters;
    this.ownBuffers = buffers;
    this.#tree = parameterTree(input.student.description, trained);
    this.#roles = new Map(
      [...input.student.description.parameters, ...parameters].map(({ name, role }) => [name, role]),
    );
    this.#plan = planGroups(this.#tree, input.strategies, position);
    this.#terms = this.#describeTerms();
  }

  get plan(): Plan {
    return this.#plan;
  }

  get terms(): readonly StageTerm[] {
    return this.#terms;
  }

  get layout(): StageLayout {
    const { input, modules, ownParameters, ownBuffers } = this;
    return {
      tree: this.#tree,
      plan: this.#plan,
      rows: this.rows(),
      terms: this.#terms,
      modules,
      ownParameters,
      ownBuffers,
      macs:
        input.student.description.macs +
        Object.values(input.teachers).reduce((sum, teacher) => sum + teacher.description.macs, 0),
    };
  }

  /** Plans anew for a phase. */
  enter(position: Position): void {
    this.#plan = planGroups(this.#tree, this.input.strategies, position);
    this.#terms = this.#describeTerms();
  }

  /** The table of groups. */
  rows(): GroupRow[] {
    const { optimizer } = this.input;
    return groupRows(this.#tree, this.#plan, optimizer.baseRate, (parameter, decay) =>
      optimizer.decayOf(parameter.role, decay),
    );
  }

  /** Weight of each term where a share `done` (0..1) of the stage lies behind. */
  weightsAt(done: number): number[] {
    const scheduled = new Map<string, number>();
    for (const { name, strategy } of this.input.strategies) {
      for (const [term, weight] of Object.entries(strategy.weights?.(done) ?? {}))
        scheduled.set(`${name}/${term}`, weight);
    }
    return this.#terms.map(({ name, weight }) => scheduled.get(name) ?? weight);
  }

  /** The step of the present phase. */
  definition(onUnreached: (names: readonly string[]) => void): StepDefinition {
    return { ...this.#definition(this.#terms.map(({ name }) => name)), onUnreached };
  }

  #definition(termNames: readonly string[]): StepDefinition {
    const { input } = this;
    return {
      stage: input.name,
      seed: input.seed,
      student: input.student.backbone,
      teachers: Object.fromEntries(
        Object.entries(input.teachers).map(([name, { backbone, mode }]) => [name, { module: backbone, mode }]),
      ),
      modules: Object.fromEntries(Object.entries(this.modules).map(([name, { module }]) => [name, module])),
      strategies: input.strategies,
      optimizer: input.optimizer,
      roles: this.#roles,
      plan: this.#plan,
      preparation: input.preparation,
      clip: input.clip,
      ema: input.ema,
      accumulates: input.accumulate > 1,
      cyclesMomentum: input.schedule.momentum !== undefined,
      termNames,
    };
  }

  /** Names, weights and shapes of the terms, by a dry run over placeholders: nothing is computed. */
  #describeTerms(): StageTerm[] {
    const { input } = this;
    const [h, w, c] = input.loader.store.inputSize;
    const size = Math.min(input.loader.batchSize, input.loader.size);
    const definition = this.#definition([]);
    const symbols = (specs: readonly (ParameterSpec | BufferSpec)[]): Tensors =>
      Object.fromEntries(specs.map((spec) => [spec.name, placeholder(spec.shape)]));
    const { result } = trace(
      `terms of ${input.name}`,
      [
        { shape: [size, h, w, c], dtype: 'uint8' },
        { shape: [size], dtype: 'int32' },
        { shape: [], dtype: 'int32' },
      ],
      (images, labels, batches) => {
        const { description } = input.student;
        const counters = { updates: batches!, batches: batches!, skipped: batches! };
        const context = buildContext(
          definition,
          {
            params: { ...symbols(description.parameters), ...symbols(this.ownParameters) },
            buffers: { ...symbols(description.buffers), ...symbols(this.ownBuffers) },
            counters,
          },
          Object.fromEntries(
            Object.entries(input.teachers).map(([name, teacher]) => [
              name,
              { params: symbols(teacher.description.parameters), buffers: symbols(teacher.description.buffers) },
            ]),
          ),
          { images: images!, labels: labels! },
        );
        context.runTeachers();
        return [...collectTerms(input.strategies, context)].map(
          ([name, term]: [string, Term]): StageTerm => ({
            name,
            weight: term.weight ?? 1,
            shape: [...term.loss.shape],
          }),
        );
      },
    );
    return result;
  }
}
