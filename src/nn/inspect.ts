import { depthGroupOf, describeModule, elementCount } from './describe.ts';
import { dryRun } from './dry-run.ts';
import type { Backbone, Role, Shape, TapSpec } from './module.ts';
import { coversName } from './scope.ts';

/** A module that holds parameters or multiplies. */
export interface ModuleRow {
  /** Dotted path. */
  readonly module: string;
  /** Of the module's tap; undefined where it publishes none. */
  readonly outputShape: Shape | undefined;
  readonly parameters: number;
  /** Multiply-accumulates of one sample. */
  readonly macs: number;
  readonly depthGroup: string;
}

export interface ParameterRow {
  readonly name: string;
  readonly shape: Shape;
  readonly role: Role;
  readonly depthGroup: string;
}

export interface DepthGroupRow {
  readonly group: string;
  readonly prefixes: readonly string[];
  readonly parameters: number;
  readonly macs: number;
}

/** All that `alambic inspect` shows of a network; plain data. */
export interface Inspection {
  readonly architecture: string;
  readonly inputShape: Shape;
  readonly outputShape: Shape;
  readonly parameterCount: number;
  /** Values that are state but not trained. */
  readonly bufferCount: number;
  readonly macs: number;
  readonly classifier: string;
  readonly featureTap: string;
  readonly rows: readonly ModuleRow[];
  readonly parameters: readonly ParameterRow[];
  readonly buffers: readonly { readonly name: string; readonly shape: Shape }[];
  readonly taps: readonly TapSpec[];
  readonly depthGroups: readonly DepthGroupRow[];
}

/** Names, shapes, cost, taps and depth groups of a network, by a dry run. The engine must be open. */
export function inspectModel(backbone: Backbone): Inspection {
  const description = describeModule(backbone);
  const { macs } = dryRun(backbone.architecture, backbone, description.inputShape);
  const tapShapes = new Map(description.taps.map(({ name, shape }) => [name, shape]));
  const parameters = description.parameters.map(({ name, shape, role }) => ({
    name,
    shape,
    role,
    depthGroup: depthGroupOf(description, name),
  }));
  const rows = new Map<string, ModuleRow>();
  for (const { name, shape, depthGroup } of parameters) {
    const module = name.slice(0, Math.max(0, name.lastIndexOf('.')));
    const row = rows.get(module) ?? {
      module,
      outputShape: tapShapes.get(module),
      parameters: 0,
      macs: 0,
      depthGroup,
    };
    rows.set(module, {
      ...row,
      parameters: row.parameters + elementCount(shape),
      macs: row.macs + (macs.get(name) ?? 0),
    });
  }
  const depthGroups = description.depthGroups.map(({ name, prefixes }) => {
    const inside = [...rows.values()].filter(({ module }) => prefixes.some((prefix) => coversName(prefix, module)));
    return {
      group: name,
      prefixes,
      parameters: inside.reduce((sum, row) => sum + row.parameters, 0),
      macs: inside.reduce((sum, row) => sum + row.macs, 0),
    };
  });
  return {
    architecture: description.architecture,
    inputShape: description.inputShape,
    outputShape: description.outputShape,
    parameterCount: description.parameterCount,
    bufferCount: description.buffers.reduce((sum, { shape }) => sum + elementCount(shape), 0),
    macs: description.macs,
    classifier: backbone.classifier,
    featureTap: backbone.featureTap,
    rows: [...rows.values()],
    parameters,
    buffers: description.buffers.map(({ name, shape }) => ({ name, shape })),
    taps: description.taps,
    depthGroups,
  };
}

const whole = (value: number) => Math.round(value).toLocaleString('en-US');
const shapeText = (shape: Shape | undefined) => (shape === undefined ? '' : `[${shape.join(', ')}]`);

/** Lines of a table: the first column left, the others right where they are numbers. */
function table(header: readonly string[], rows: readonly (readonly (string | number)[])[]): string[] {
  const cells = rows.map((row) => row.map((cell) => (typeof cell === 'number' ? whole(cell) : cell)));
  const widths = header.map((title, i) => Math.max(title.length, ...cells.map((row) => row[i]!.length)));
  const numeric = header.map((_, i) => rows.length > 0 && rows.every((row) => typeof row[i] === 'number'));
  const line = (row: readonly string[]) =>
    row
      .map((cell, i) => (numeric[i] ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join('  ')
      .trimEnd();
  return [line(header), line(widths.map((width) => '-'.repeat(width))), ...cells.map(line)];
}

/** Plain text of an inspection: totals, then modules, depth groups and taps. */
export function formatInspection(data: Inspection): string[] {
  return [
    `${data.architecture}: ${shapeText(data.inputShape)} -> ${shapeText(data.outputShape)}`,
    `${whole(data.parameterCount)} parameters, ${whole(data.bufferCount)} buffer values, ${whole(data.macs)} MACs per sample`,
    `classifier ${data.classifier}, features ${data.featureTap}`,
    '',
    ...table(
      ['module', 'output', 'parameters', 'MACs', 'depth group'],
      data.rows.map((row) => [row.module, shapeText(row.outputShape), row.parameters, row.macs, row.depthGroup]),
    ),
    '',
    ...table(
      ['depth group', 'prefixes', 'parameters', 'MACs'],
      data.depthGroups.map((row) => [row.group, row.prefixes.join(', '), row.parameters, row.macs]),
    ),
    '',
    ...table(
      ['tap', 'shape'],
      data.taps.map(({ name, shape }) => [name, shapeText(shape)]),
    ),
  ];
}
