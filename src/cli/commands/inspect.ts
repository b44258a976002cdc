import { existsSync } from 'node:fs';
import { EXIT, unknownName } from '../../errors.ts';
import { formatCount, formatInteger } from '../../loggers/quantities.ts';
import { type Column, textTable } from '../../loggers/text-table.ts';
import { type Inspection, inspectModel } from '../../nn/inspect.ts';
import type { Backbone } from '../../nn/module.ts';
import { ZOO } from '../../nn/zoo.ts';
import { createHost } from '../../plugin-host/builtins.ts';
import { findModel } from '../../train/find-model.ts';
import { disposeModel } from '../../train/fingerprint.ts';
import { openModel } from '../../train/predict.ts';
import type { Command, CommandOptions } from '../command.ts';
import { openEngineFor } from '../engine-options.ts';
import { hostOf } from '../host-of-run.ts';
import type { Writer } from '../writer.ts';

/** `alambic inspect MODEL`: size, cost, depth groups, and on demand taps and parameters of a network. */
export const run: Command = async ({ args, options, writer }) => {
  const name = args[0] as string;
  await openEngineFor(options, writer);
  const inspection = inspectModel(await backboneOf(name, options));
  writer.result(textOf(inspection, options, writer), inspection);
  return EXIT.ok;
};

async function backboneOf(name: string, { input, classes }: CommandOptions): Promise<Backbone> {
  const host = createHost();
  if (host.has('model', name)) {
    const entry = ZOO.find((candidate) => candidate.name === name);
    return host.instantiateUse('model', name).build({
      inputSize: input ?? entry?.preprocessing.inputSize ?? [224, 224, 3],
      classes: classes ?? entry?.classes ?? 1000,
    });
  }
  if (!existsSync(name)) {
    throw unknownName(
      'UNKNOWN_MODEL',
      'model',
      name,
      host.list('model').map(({ plugin }) => plugin.name),
    );
  }
  const place = await findModel(name);
  const { backbone, state } = await openModel(place.folder, await hostOf(place));
  disposeModel(state);
  return backbone;
}

const right = (title: string): Column => ({ title, align: 'right' });
const shapeText = (shape: readonly number[] | undefined) => (shape === undefined ? '' : `[${shape.join(',')}]`);

function textOf(data: Inspection, options: CommandOptions, { colors, width }: Writer): string {
  const look = { width, indent: 2, header: colors.dim };
  const section = (title: string, columns: readonly Column[], rows: readonly (readonly string[])[]) => [
    '',
    colors.bold(title),
    ...textTable(columns, rows, look),
  ];
  return [
    `${colors.bold(data.architecture)}  ${shapeText(data.inputShape)} -> ${shapeText(data.outputShape)}`,
    `  ${formatInteger(data.parameterCount)} parameters, ${formatCount(data.macs)} MACs an image`,
    `  classifier ${data.classifier}, features ${data.featureTap}`,
    ...section(
      'Modules',
      [{ title: 'module' }, { title: 'output' }, right('parameters'), right('MACs'), { title: 'depth group' }],
      data.rows.map((row) => [
        row.module,
        shapeText(row.outputShape),
        formatInteger(row.parameters),
        row.macs === 0 ? '' : formatInteger(row.macs),
        row.depthGroup,
      ]),
    ),
    ...section(
      'Depth groups',
      [{ title: 'group' }, right('parameters'), right('MACs'), { title: 'prefixes' }],
      data.depthGroups.map((row) => [
        row.group,
        formatInteger(row.parameters),
        formatCount(row.macs),
        row.prefixes.join(', '),
      ]),
    ),
    ...(options.taps
      ? section(
          'Taps',
          [{ title: 'tap' }, { title: 'shape' }],
          data.taps.map(({ name, shape }) => [name, shapeText(shape)]),
        )
      : [
          '',
          colors.dim(
            `${data.taps.length} taps (--taps lists them), ${data.parameters.length} parameters (--parameters)`,
          ),
        ]),
    ...(options.parameters
      ? section(
          'Parameters and buffers',
          [{ title: 'name' }, { title: 'shape' }, { title: 'role' }, { title: 'depth group' }],
          [
            ...data.parameters.map((row) => [row.name, shapeText(row.shape), row.role, row.depthGroup]),
            ...data.buffers.map((row) => [row.name, shapeText(row.shape), 'buffer', '']),
          ],
        )
      : []),
  ].join('\n');
}
