import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { renderText, textRequest } from '../../src/cli/help.mjs';
import { readCommandTable } from '../../src/cli/main.ts';

const launcher = fileURLToPath(new URL('../../bin/alambic.mjs', import.meta.url));
const table = readCommandTable();
const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

const call = (args: readonly string[], env: Record<string, string> = {}) =>
  spawnSync(process.execPath, [launcher, ...args], { encoding: 'utf8', env: { ...process.env, ...env } });

/** Files that a call of the launcher loads from node_modules or as TypeScript. */
function loadedBy(args: readonly string[]): string[] {
  // The hook prints each module that is resolved; it is the process's own first import.
  const hook = `data:text/javascript,${encodeURIComponent(
    `
    import { registerHooks, register } from 'node:module';
    const source = 'export async function resolve(s, c, n) { const r = await n(s, c); process._rawDebug("LOADED " + r.url); return r; }';
    register('data:text/javascript,' + encodeURIComponent(source));`.replace('registerHooks, ', ''),
  )}`;
  const { stderr } = spawnSync(process.execPath, ['--import', hook, launcher, ...args], { encoding: 'utf8' });
  return [...stderr.matchAll(/^LOADED (.*)$/gm)].map(([, url]) => url!);
}

describe('launcher', () => {
  test.each([[['--help']], [['train', '--help']], [['--version']], [[]]])(
    '%j loads neither tsx nor the engine',
    (args) => {
      const loaded = loadedBy(args);
      expect(loaded.some((url) => url.endsWith('/src/cli/help.mjs'))).toBe(true);
      expect(loaded.filter((url) => url.includes('node_modules') || url.endsWith('.ts'))).toEqual([]);
    },
  );

  test('a real command does load tsx: the test before can see it', () => {
    expect(loadedBy(['nonsense']).some((url) => url.includes('node_modules/tsx'))).toBe(true);
  });

  test('help of the program names every command, help of a command every option', () => {
    const { stdout, status } = call(['--help']);
    expect(status).toBe(0);
    for (const command of Object.keys(table.commands)) expect(stdout).toContain(`  ${command}`);
    for (const [command, { options }] of Object.entries(table.commands)) {
      const help = call([command, '--help']);
      expect(help.status).toBe(0);
      for (const name of [...options, ...table.common]) expect(help.stdout).toContain(table.options[name]!.flags);
    }
    expect(call(['help', 'train']).stdout).toBe(call(['train', '-h']).stdout);
    expect(call(['--version']).stdout).toBe(`${version}\n`);
  });

  test('wrong calls end with 2 and name what is nearest', () => {
    const wrong: [string[], RegExp][] = [
      [['trian', 'x.yaml'], /unknown command "trian": did you mean "train"\?/],
      [['trian', '--help'], /did you mean "train"\?/],
      [['train', 'x.yaml', '--sed', '3'], /unknown option "--sed": did you mean "--seed"\?/],
      [['--jsn'], /unknown option "--jsn": did you mean "--json"\?/],
      [['train'], /expected RECIPE: alambic train RECIPE/],
      [['train', 'a.yaml', 'b.yaml'], /too many arguments/],
      [['train', 'a.yaml', '--engine', 'turbo'], /Allowed choices are eager, graph, xla/],
      [['train', 'a.yaml', '--seed', '1.5'], /expected a whole number from 0 on/],
      [['inspect', 'resnet20', '--input', '32x32'], /expected height x width x channels/],
      [['runtime', 'frob'], /Allowed choices are install, info, remove/],
      [['train', 'no-such-recipe.yaml'], /no-such-recipe\.yaml/],
    ];
    for (const [args, message] of wrong) {
      const { status, stdout, stderr } = call(args);
      expect([args, status]).toEqual([args, 2]);
      expect(stderr).toMatch(message);
      expect(stderr).not.toMatch(/^\s+at .*:\d+:\d+/m);
      expect(stdout).toBe('');
    }
  }, 120_000);

  test('--json tells an error as an object on stdout', () => {
    const { stdout, status } = call(['train', 'no-such-recipe.yaml', '--json']);
    expect(status).toBe(2);
    const lines = stdout.trimEnd().split('\n');
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0]!)).toMatchObject({ type: 'error', code: 'RECIPE_NOT_FOUND' });
  });

  test('works from any folder, and lists plugins as text and as data', () => {
    const { stdout, status } = spawnSync(process.execPath, [launcher, 'plugins', '--kind', 'logger', '--json'], {
      encoding: 'utf8',
      cwd: '/',
    });
    expect(status).toBe(0);
    expect((JSON.parse(stdout) as { name: string }[]).map(({ name }) => name).sort()).toEqual(['csv', 'jsonl']);
  });
});

describe('help', () => {
  const look = { version, width: 80, color: false };

  test('the table is whole: groups name all commands, commands name known options', () => {
    expect(table.groups.flatMap(({ commands }) => commands).sort()).toEqual(Object.keys(table.commands).sort());
    for (const { options } of Object.values(table.commands))
      for (const name of options) expect(table.options).toHaveProperty(name);
  });

  test.each([72, 80, 110])('fits %d columns', (width) => {
    for (const command of [undefined, ...Object.keys(table.commands)]) {
      const text = renderText(table, command === undefined ? { kind: 'help' } : { kind: 'help', command }, {
        ...look,
        width,
      });
      for (const line of text.split('\n').filter((each) => !/^\s+\$ |^alambic /.test(each)))
        expect(line.length).toBeLessThanOrEqual(width);
    }
  });

  test('colour only adds escape codes', () => {
    const plain = renderText(table, { kind: 'help' }, look);
    const coloured = renderText(table, { kind: 'help' }, { ...look, color: true });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: escape codes are what is looked for.
    expect(coloured.replace(/\u001b\[\d+m/g, '')).toBe(plain);
    expect(plain).not.toContain('\u001b');
  });

  test('knows when text is asked for', () => {
    expect(textRequest(table, [])).toEqual({ kind: 'help' });
    expect(textRequest(table, ['train', 'x', '-h'])).toEqual({ kind: 'help', command: 'train' });
    expect(textRequest(table, ['help', 'eval'])).toEqual({ kind: 'help', command: 'eval' });
    expect(textRequest(table, ['-V'])).toEqual({ kind: 'version' });
    expect(textRequest(table, ['train', 'x'])).toBeUndefined();
    expect(textRequest(table, ['predict', 'm', '--', '--help'])).toBeUndefined();
    expect(textRequest(table, ['toString', '--help'])).toBeUndefined();
  });
});
