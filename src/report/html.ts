/** A piece of HTML that is already escaped. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toString(): string {
    return this.text;
  }
}

/** What may stand in a template: text and numbers are escaped, pieces and lists of them are taken as they are, nothing for the rest. */
export type Content = string | number | Html | false | null | undefined | readonly Content[];

/**
 * Makes HTML from a template; every value is escaped, in text and in quoted attributes alike.
 *
 * @example
 * html`<td title="${name}">${value}</td>`
 */
export function html(strings: TemplateStringsArray, ...values: readonly Content[]): Html {
  let text = strings[0]!;
  values.forEach((value, i) => {
    text += textOf(value) + strings[i + 1]!;
  });
  return new Html(text);
}

function textOf(content: Content): string {
  if (content === false || content === null || content === undefined) return '';
  if (content instanceof Html) return content.text;
  if (typeof content === 'object') return content.map(textOf).join('');
  return escapeHtml(String(content));
}

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Text that is safe within an element and within a quoted attribute; control characters that no document may hold are left out. */
export function escapeHtml(text: string): string {
  return (
    text
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to remove.
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g, '�')
      .replace(/[&<>"']/g, (character) => ESCAPES[character]!)
  );
}
