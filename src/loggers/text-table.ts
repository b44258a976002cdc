import { stripVTControlCharacters } from 'node:util';

export interface Column {
  readonly title: string;
  /** @default 'left' */
  readonly align?: 'left' | 'right';
}

/** Columns that a text takes on a terminal, colour codes aside. */
export function visibleWidth(text: string): number {
  let width = 0;
  for (const character of stripVTControlCharacters(text)) width += isWide(character.codePointAt(0)!) ? 2 : 1;
  return width;
}

/** East Asian wide characters and emoji, which take two columns. */
function isWide(code: number): boolean {
  return (
    (code >= 0x1100 && code <= 0x115f) ||
    (code >= 0x2e80 && code <= 0xa4cf) ||
    (code >= 0xac00 && code <= 0xd7a3) ||
    (code >= 0xf900 && code <= 0xfaff) ||
    (code >= 0xfe30 && code <= 0xfe6f) ||
    (code >= 0xff00 && code <= 0xff60) ||
    (code >= 0xffe0 && code <= 0xffe6) ||
    (code >= 0x1f300 && code <= 0x1faff) ||
    (code >= 0x20000 && code <= 0x3fffd)
  );
}

/** Cuts a text (without colour codes) to a width, the last column an ellipsis. */
export function clip(text: string, width: number): string {
  if (visibleWidth(text) <= width) return text;
  let kept = '';
  let used = 0;
  for (const character of text) {
    const next = visibleWidth(character);
    if (used + next > Math.max(0, width - 1)) break;
    kept += character;
    used += next;
  }
  return width <= 0 ? '' : `${kept}…`;
}

/** Fills a text up to a width; longer ones stay. */
export function padTo(text: string, width: number, align: 'left' | 'right' = 'left'): string {
  const gap = ' '.repeat(Math.max(0, width - visibleWidth(text)));
  return align === 'left' ? text + gap : gap + text;
}

/**
 * A table of text: a dim header, two spaces between the columns, numbers to the right. Columns that do not fit the width are left
 * out from the right, the first one always stays.
 */
export function textTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  options: { width?: number; indent?: number; header?: (text: string) => string } = {},
): string[] {
  const { width = Number.POSITIVE_INFINITY, indent = 0, header = (text: string) => text } = options;
  const widths = columns.map(({ title }, c) =>
    Math.max(visibleWidth(title), ...rows.map((row) => visibleWidth(row[c] ?? ''))),
  );
  let shown = columns.length;
  const total = () => indent + widths.slice(0, shown).reduce((sum, w) => sum + w + 2, -2);
  while (shown > 1 && total() > width) shown--;
  const line = (cells: readonly string[], paint: (text: string) => string) => {
    const texts = columns.slice(0, shown).map(({ align }, c) => {
      const cell = cells[c] ?? '';
      return paint(c === shown - 1 && align !== 'right' ? cell : padTo(cell, widths[c]!, align));
    });
    return ' '.repeat(indent) + texts.join('  ').trimEnd();
  };
  return [
    line(
      columns.map(({ title }) => title),
      header,
    ),
    ...rows.map((row) => line(row, (text) => text)),
  ];
}
