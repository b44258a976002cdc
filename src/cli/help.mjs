// Plain JavaScript on purpose: the launcher shows help from it before TypeScript, commander or the engine is loaded.

/**
 * @typedef {import('./help.d.mts').CommandTable} CommandTable
 */

const GAP = 3;

/** Words of a text in lines of at most `width` characters. */
function wrap(text, width) {
  const lines = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  lines.push(line);
  return lines;
}

/** Two columns, the second one wrapped within the width. */
function columns(rows, first, width, paint) {
  return rows.flatMap(([name, text]) => {
    const lines = wrap(text, Math.max(24, width - first - 2));
    return lines.map(
      (line, i) => `  ${i === 0 ? paint(name) + ' '.repeat(first - name.length) : ' '.repeat(first)}${line}`,
    );
  });
}

function argumentText({ name, variadic, choices }) {
  if (choices !== undefined) return choices.length === 1 ? choices[0] : choices.join('|');
  return variadic ? `${name}...` : name;
}

/** Usage line of a command: `alambic train RECIPE [options]`. */
export function usageOf(table, command) {
  const { arguments: parameters } = table.commands[command];
  return [table.name, command, ...parameters.map(argumentText), '[options]'].join(' ');
}

function optionRow(option) {
  const { flags, description, default: value } = option;
  const shown = flags.startsWith('-') && !flags.startsWith('--') ? flags : `    ${flags}`;
  return [shown, value === undefined ? description : `${description} (default: ${value})`];
}

/** Help of one command. */
export function commandHelp(table, command, { width, bold, dim, cyan }) {
  const entry = table.commands[command];
  const parameters = entry.arguments.filter(({ choices }) => choices === undefined || choices.length > 1);
  const rows = {
    Arguments: parameters.map((argument) => [argument.name, argument.description]),
    Options: [...entry.options, ...table.common].map((name) => optionRow(table.options[name])),
  };
  const first = Math.max(...Object.values(rows).flatMap((list) => list.map(([name]) => name.length))) + GAP;
  const lines = [`${bold(usageOf(table, command))}`, '', `  ${capital(entry.description)}.`];
  for (const [title, list] of Object.entries(rows)) {
    if (list.length > 0) lines.push('', bold(title), ...columns(list, first, width, cyan));
  }
  lines.push('', bold('Examples'), ...entry.examples.map((example) => `  ${dim('$')} ${example}`), '');
  return lines.join('\n');
}

/** Help of the program. */
export function programHelp(table, version, { width, bold, dim, cyan }) {
  const names = table.groups.flatMap(({ commands }) => commands);
  const first = Math.max(...names.map((name) => shortUsage(table, name).length)) + GAP;
  const lines = [
    `${bold(table.name)} ${dim(version)}`,
    `${table.description}`,
    '',
    `${bold('Usage')}  ${table.name} <command> [options]`,
  ];
  for (const { title, commands } of table.groups) {
    const rows = commands.map((name) => [shortUsage(table, name), table.commands[name].description]);
    lines.push('', bold(title), ...columns(rows, first, width, cyan));
  }
  const options = [...table.common, 'version'].map((name) => optionRow(table.options[name]));
  lines.push('', bold('Options'), ...columns(options, first, width, cyan));
  lines.push('', `${dim(`${table.name} <command> --help shows the options and examples of a command.`)}`, '');
  return lines.join('\n');
}

function shortUsage(table, command) {
  return [command, ...table.commands[command].arguments.map(argumentText)].join(' ');
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

/**
 * What of the command line only asks for text: `--help`, `help [command]`, `--version` or nothing at all.
 * An unknown command is left to the program, which names the nearest one.
 */
export function textRequest(table, args) {
  const end = args.indexOf('--');
  const words = end < 0 ? args : args.slice(0, end);
  const command = words.find((word) => !word.startsWith('-'));
  const known = command !== undefined && Object.hasOwn(table.commands, command);
  if (command === 'help') {
    const topic = words[words.indexOf('help') + 1];
    if (topic === undefined || topic.startsWith('-')) return { kind: 'help' };
    return Object.hasOwn(table.commands, topic) ? { kind: 'help', command: topic } : undefined;
  }
  if (words.includes('--help') || words.includes('-h')) {
    if (command === undefined) return { kind: 'help' };
    return known ? { kind: 'help', command } : undefined;
  }
  if (command === undefined && (words.includes('--version') || words.includes('-V'))) return { kind: 'version' };
  return args.length === 0 ? { kind: 'help' } : undefined;
}

/** The text that was asked for. */
export function renderText(table, request, { version, width, color }) {
  const style = (open, close) => (text) => (color ? `\u001b[${open}m${text}\u001b[${close}m` : text);
  const look = { width, bold: style(1, 22), dim: style(2, 22), cyan: style(36, 39) };
  if (request.kind === 'version') return `${version}\n`;
  return request.command === undefined ? programHelp(table, version, look) : commandHelp(table, request.command, look);
}
