import { AlambicError, EXIT } from '../../errors.ts';
import { formatInteger, formatMetric } from '../../loggers/quantities.ts';
import { textTable } from '../../loggers/text-table.ts';
import type { LoadedRecipe } from '../../recipe/load.ts';
import { evaluateModels } from '../../train/evaluate-models.ts';
import { findModel, type ModelPlace } from '../../train/find-model.ts';
import { runPaths } from '../../train/run-folder.ts';
import type { Command, CommandOptions } from '../command.ts';
import { openEngineFor } from '../engine-options.ts';
import { loadWithOptions } from '../train-recipe.ts';

/** `alambic eval RUN_OR_MODEL`: metrics of trained models on a split. */
export const run: Command = async ({ args, options, writer }) => {
  const place = await findModel(args[0] as string);
  const loaded = await recipeFor(place, options);
  const { mode } = await openEngineFor(options, writer, loaded.recipe);
  const results = await evaluateModels(loaded, Object.values(place.all), {
    split: options.split ?? 'test',
    engine: { mode, device: options.device ?? loaded.recipe.engine.device },
  });
  const stages = Object.keys(place.all);
  const names = [...new Set(results.flatMap(({ metrics }) => Object.keys(metrics)))];
  const rows = results.map(({ items, metrics }, i) => [
    writer.colors.bold(stages[i]!),
    formatInteger(items),
    ...names.map((name) => (metrics[name] === undefined ? '–' : formatMetric(name, metrics[name]))),
  ]);
  const columns = [
    { title: `split ${options.split ?? 'test'}` },
    ...['images', ...names].map((title) => ({ title, align: 'right' as const })),
  ];
  const table = textTable(columns, rows, { width: writer.width, header: writer.colors.dim });
  writer.result(
    table.join('\n'),
    results.map((result, i) => ({ stage: stages[i], ...result })),
  );
  return EXIT.ok;
};

/** The run's own recipe, or the one that `--data` names. */
async function recipeFor({ run }: ModelPlace, options: CommandOptions): Promise<LoadedRecipe> {
  if (options.data !== undefined) return loadWithOptions(options.data, options);
  if (run !== undefined) return loadWithOptions(runPaths(run.folder).recipe, options);
  throw new AlambicError('USAGE', 'expected --data with a model of no run: what should it be measured on?', {
    hint: 'Name a recipe with the data: `--data my.yaml`.',
  });
}
