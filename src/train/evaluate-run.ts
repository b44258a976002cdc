import { AlambicError } from '../errors.ts';
import type { Metric, RunEvent } from '../plugin-host/contract.ts';
import type { LoadedRecipe } from '../recipe/load.ts';
import { Evaluator, measure } from './evaluate.ts';
import { disposeModel } from './fingerprint.ts';
import { prepareRun } from './prepare.ts';
import { STANDARD_METRICS } from './run.ts';
import type { SavedModel } from './saved-model.ts';

/** Metrics of one model on a split. */
export interface Evaluation {
  readonly model: string;
  readonly split: string;
  readonly items: number;
  readonly metrics: Readonly<Record<string, number>>;
}

/** Items of a batch. */
const BATCH = 256;

/**
 * Measures trained models on a split of a recipe's data, with the recipe's metrics. The engine must be open; the models are disposed.
 *
 * @throws AlambicError UNKNOWN_SPLIT, LABELS_MISMATCH where the model's classes are not the data's, DATA_SIZE.
 */
export async function* evaluateModels(
  loaded: LoadedRecipe,
  models: AsyncIterable<readonly [name: string, model: SavedModel]>,
  split: string,
  emit: (event: RunEvent) => void = () => undefined,
): AsyncGenerator<Evaluation> {
  const prepared = await prepareRun(loaded, emit);
  const { data, host, scope, transforms, networkSize, recipe } = prepared;
  try {
    for await (const [name, { config, backbone, state }] of models) {
      const { labels, preprocessing } = config;
      if (labels.length > 0 && labels.join('\n') !== data.labels.join('\n')) {
        throw new AlambicError(
          'LABELS_MISMATCH',
          `model "${name}" tells ${labels.length} classes apart, the data has ${data.labels.length} others`,
          {
            hint: `The data's classes: ${data.labels.slice(0, 8).join(', ')}. The model's: ${labels.slice(0, 8).join(', ')}.`,
          },
        );
      }
      if (networkSize.join() !== preprocessing.inputSize.join()) {
        throw new AlambicError(
          'DATA_SIZE',
          `model "${name}" takes [${preprocessing.inputSize}], the data gives [${networkSize}]`,
          {
            hint: `Set \`data.input\`: --set 'data.input=[${preprocessing.inputSize}]'.`,
          },
        );
      }
      // The model's own normalisation: it travels with the weights.
      const preparation = { ...data.preparation(transforms), mean: preprocessing.mean, std: preprocessing.std };
      const evaluator = new Evaluator(name, backbone, preparation, data.labels.length);
      try {
        const outputs = await evaluator.outputs(state, data.evaluationLoader(split, BATCH));
        const standard = STANDARD_METRICS.filter((metric) => host.has('metric', metric)).map((use) => ({ use }));
        const metrics: Metric[] = [...standard, ...recipe.run.metrics].map((use) =>
          host.instantiateUse('metric', use, { parent: scope }),
        );
        yield { model: name, split, items: outputs.labels.length, metrics: measure(outputs, metrics) };
      } finally {
        evaluator.dispose();
        disposeModel(state);
      }
    }
  } finally {
    await data.close();
  }
}
