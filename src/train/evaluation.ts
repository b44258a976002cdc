import { unknownName } from '../errors.ts';
import type { ModelState } from '../nn/module.ts';
import type { Metric } from '../plugin-host/contract.ts';
import { Evaluator, measure, type Outputs } from './evaluate.ts';
import type { PreparedRun } from './prepare.ts';
import { standardMetrics } from './standard-metrics.ts';

/** Items of an evaluation batch: large enough to keep the cores busy, small in memory. */
const BATCH = 256;
/** Items of a split that a dry run looks at. */
const FEW = 32;

/** Evaluates the networks of a run: one recorded forward pass for each, kept until the run ends. */
export class Evaluation {
  readonly #prepared: PreparedRun;
  readonly #limited: boolean;
  readonly #evaluators = new Map<string, Evaluator>();

  /** @param limited Whether only a few items of each split are looked at. */
  constructor(prepared: PreparedRun, limited: boolean) {
    this.#prepared = prepared;
    this.#limited = limited;
  }

  /** Fresh metrics. */
  metrics(): Metric[] {
    return standardMetrics(this.#prepared);
  }

  /** Outputs of a network of the recipe for a split. */
  async outputs(model: string, state: ModelState, split: string): Promise<Outputs> {
    const { data, models, transforms } = this.#prepared;
    let evaluator = this.#evaluators.get(model);
    if (evaluator === undefined) {
      evaluator = new Evaluator(model, models.get(model)!.backbone, data.preparation(transforms), data.labels.length);
      this.#evaluators.set(model, evaluator);
    }
    return evaluator.outputs(state, data.evaluationLoader(split, BATCH, this.#limited ? FEW : undefined));
  }

  /**
   * Checks that the metrics that the recipe watches will be measured.
   *
   * @throws AlambicError UNKNOWN_METRIC.
   */
  checkMonitors(): void {
    const { recipe, data } = this.#prepared;
    const known = this.#names().map((name) => `${data.watched}/${name}`);
    const check = (where: string, monitor: string) => {
      // Those of training depend on the stage's strategies: the stage checks them.
      if (!monitor.startsWith('train/') && !known.includes(monitor))
        throw unknownName('UNKNOWN_METRIC', `metric in ${where}`, monitor, known);
    };
    if (recipe.run.keep.best > 0) check('run.keep.monitor', recipe.run.keep.monitor);
    for (const { name, monitor, patience } of recipe.stages)
      if (patience !== undefined) check(`stages.${name}.monitor`, monitor ?? recipe.run.keep.monitor);
  }

  /** Names of what is measured: from metrics over one made-up item of each class. */
  #names(): string[] {
    const classes = this.#prepared.data.labels.length;
    const labels = Int32Array.from({ length: classes }, (_, i) => i);
    const logits = new Float32Array(classes * classes);
    labels.forEach((c) => {
      logits[c * classes + c] = 1;
    });
    const outputs = { logits, labels, losses: new Float32Array(classes), indices: labels, classes };
    return Object.keys(measure(outputs, this.metrics()));
  }

  dispose(): void {
    for (const evaluator of this.#evaluators.values()) evaluator.dispose();
    this.#evaluators.clear();
  }
}
