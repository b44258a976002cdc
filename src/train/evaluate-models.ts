import { openEngine } from '../engine/engine.ts';
import { AlambicError } from '../errors.ts';
import type { LoadedRecipe } from '../recipe/load.ts';
import { Evaluator, measure } from './evaluate.ts';
import { disposeModel } from './fingerprint.ts';
import { openModel } from './predict.ts';
import { prepareRun } from './prepare.ts';
import { standardMetrics } from './standard-metrics.ts';

export interface ModelEvaluation {
  readonly folder: string;
  readonly architecture: string;
  readonly parameters: number;
  readonly split: string;
  readonly items: number;
  readonly metrics: Readonly<Record<string, number>>;
}

const BATCH = 256;

/**
 * Measures saved models on a split of a recipe's data. The images are prepared as each model's config says; labels must be the same.
 *
 * Throws MODEL_*, LABELS_MISMATCH, UNKNOWN_SPLIT.
 */
export async function evaluateModels(
  loaded: LoadedRecipe,
  folders: readonly string[],
  options: {
    readonly split: string;
    readonly engine?: { readonly mode?: 'eager' | 'graph' | 'xla'; readonly device?: string };
  },
): Promise<ModelEvaluation[]> {
  const { recipe, host } = loaded;
  await openEngine({
    device: options.engine?.device ?? recipe.engine.device,
    mode: options.engine?.mode ?? recipe.engine.mode ?? 'graph',
  });
  const prepared = await prepareRun(loaded, () => undefined);
  try {
    const results: ModelEvaluation[] = [];
    for (const folder of folders) {
      const model = await openModel(folder, host);
      const { labels, preprocessing, classes } = model.config;
      const { data, networkSize, transforms } = prepared;
      if (labels.length > 0 && labels.join('\n') !== data.labels.join('\n')) {
        throw new AlambicError(
          'LABELS_MISMATCH',
          `the model at ${folder} has the classes ${labels.slice(0, 6).join(', ')}…, the data ${data.labels.slice(0, 6).join(', ')}…`,
          {
            hint: 'Classes must be the same, in the same order.',
          },
        );
      }
      if (preprocessing.inputSize.join() !== networkSize.join()) {
        throw new AlambicError(
          'DATA_SIZE',
          `the model at ${folder} takes [${preprocessing.inputSize}], the recipe's data gives [${networkSize}]`,
          {
            hint: 'Change `data.input` or the transforms of the recipe with --set.',
          },
        );
      }
      const { mean, std } = preprocessing;
      const evaluator = new Evaluator(
        model.description.architecture,
        model.backbone,
        { transforms, mean, std },
        classes,
      );
      try {
        const outputs = await evaluator.outputs(model.state, data.evaluationLoader(options.split, BATCH));
        results.push({
          folder,
          architecture: model.description.architecture,
          parameters: model.description.parameterCount,
          split: options.split,
          items: outputs.labels.length,
          metrics: measure(outputs, standardMetrics(prepared)),
        });
      } finally {
        evaluator.dispose();
        disposeModel(model.state);
      }
    }
    return results;
  } finally {
    await prepared.data.close();
  }
}
