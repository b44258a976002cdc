import { EXIT } from '../../errors.ts';
import { groupTable } from '../../loggers/group-table.ts';
import { formatCount, formatInteger, formatNumber, formatSetting } from '../../loggers/quantities.ts';
import { textTable } from '../../loggers/text-table.ts';
import { saveResolved } from '../../recipe/load.ts';
import { type CheckedModel, type CheckedStage, type CheckReport, checkRecipe } from '../../train/check.ts';
import type { Command } from '../command.ts';
import { loadWithOptions } from '../train-recipe.ts';
import type { Writer } from '../writer.ts';

/** `alambic check RECIPE`: validates a recipe and shows what it would do. */
export const run: Command = async ({ args, options, writer }) => {
  const loaded = await loadWithOptions(args[0] as string, options);
  const report = await checkRecipe(loaded, {
    say: (line) => writer.line(line),
    ...(options.device === undefined ? {} : { engine: { device: options.device } }),
  });
  for (const { message } of [...report.warnings, ...report.data.findings]) writer.warn(message);
  const { bold, green, dim } = writer.colors;
  const { length } = report.stages;
  const macs = report.stages.reduce((sum, stage) => sum + stage.forwardMacs, 0);
  const verdict = `${green('✓')} ${bold(loaded.recipe.name)} is valid: ${length} ${length === 1 ? 'stage' : 'stages'}, ${formatCount(macs)} MACs forward ${dim('(nothing was trained)')}`;
  const text = [
    bold('Resolved recipe'),
    ...saveResolved(loaded.recipe)
      .trimEnd()
      .split('\n')
      .map((line) => `  ${line}`),
    '',
    ...dataLines(report, writer),
    ...report.stages.flatMap((stage) => ['', ...stageLines(stage, report.models, writer)]),
    '',
    verdict,
  ];
  writer.result(writer.mode === 'quiet' ? verdict : text.join('\n'), { recipe: loaded.recipe, ...report });
  return EXIT.ok;
};

function dataLines({ labels, splits, inputSize, networkSize }: CheckReport, { colors }: Writer): string[] {
  const items = Object.entries(splits).map(([name, count]) => `${name} ${formatInteger(count)}`);
  const resized = inputSize.join() === networkSize.join() ? '' : ` -> [${networkSize.join(',')}]`;
  return [
    colors.bold('Data'),
    `  ${formatInteger(labels.length)} classes; ${items.join(', ')} images of [${inputSize.join(',')}]${resized}`,
  ];
}

function stageLines(stage: CheckedStage, models: readonly CheckedModel[], { colors, width }: Writer): string[] {
  const { bold, dim } = colors;
  const model = models.find(({ name }) => name === stage.model)!;
  const teachers = Object.entries(stage.teachers).map(([name, { model: other }]) =>
    name === other ? name : `${name} (${other})`,
  );
  const labelled = stage.labelled < stage.items ? `, ${formatInteger(stage.labelled)} with label` : '';
  return [
    `${bold(`Stage ${stage.name}`)}  ${stage.model}${teachers.length === 0 ? '' : `, taught by ${teachers.join(', ')}`}`,
    dim(
      `  ${model.architecture} [${model.inputShape.join(',')}] -> [${model.outputShape.join(',')}], ${formatCount(model.parameters)} parameters, ${formatCount(model.macs)} MACs an image`,
    ),
    dim(
      `  ${formatInteger(stage.updates)} updates, ${formatInteger(stage.epochs)} epochs over ${formatInteger(stage.items)} images${labelled}; rate ${stage.rates
        .map((rate) => formatSetting(rate))
        .join(' → ')}`,
    ),
    '',
    ...groupTable(stage.groups, colors, width),
    '',
    ...textTable(
      [{ title: 'term' }, { title: 'weight', align: 'right' }, { title: 'loss' }],
      stage.terms.map(({ name, weight, shape }) => [
        name,
        formatNumber(weight, 3),
        shape.length === 0 ? 'scalar' : `[${shape.join(',')}]`,
      ]),
      { width, indent: 2, header: dim },
    ),
  ];
}
