import type { GroupRow } from '../plugin-host/contract.ts';
import type { Colors } from './colors.ts';
import { formatInteger, formatSetting } from './quantities.ts';
import { textTable } from './text-table.ts';

/** The table of groups that stands before a stage and a phase: who trains, at what rate; printed = used. */
export function groupTable(groups: readonly GroupRow[], colors: Colors, width: number): string[] {
  const rows = groups.map(({ group, parameters, trainable, rate, decay, mode }) => {
    const cells = [
      group,
      formatInteger(parameters),
      trainable ? 'trains' : 'frozen',
      trainable ? formatSetting(rate) : '–',
      trainable && decay > 0 ? formatSetting(decay) : '–',
      mode,
    ];
    return trainable ? cells : cells.map((cell) => colors.dim(cell));
  });
  const trained = groups.filter(({ trainable }) => trainable).reduce((sum, { parameters }) => sum + parameters, 0);
  const all = groups.reduce((sum, { parameters }) => sum + parameters, 0);
  return [
    ...textTable(
      [
        { title: 'group' },
        { title: 'parameters', align: 'right' },
        { title: 'state' },
        { title: 'rate', align: 'right' },
        { title: 'decay', align: 'right' },
        { title: 'mode' },
      ],
      rows,
      { width, indent: 2, header: colors.dim },
    ),
    colors.dim(`  ${formatInteger(trained)} of ${formatInteger(all)} parameters train`),
  ];
}
