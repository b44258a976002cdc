import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { createHost } from '../../src/plugin-host/builtins.ts';
import { loadRecipe, parseRecipe, saveResolved } from '../../src/recipe/load.ts';
import { RecipeError } from '../../src/recipe/located.ts';
import { errorFacts, rejectionOf } from '../plugin-host/error-facts.ts';

const host = createHost();
const folder = mkdtempSync(join(tmpdir(), 'alambic-recipe-'));
afterAll(() => rmSync(folder, { recursive: true }));
beforeEach(() => {
  for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true });
});

function write(files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
}

const load = (name: string, ...set: string[]) => loadRecipe(join(folder, name), { set }, host);

/** What is wrong with a recipe: each problem whole, its place without the folder. */
async function problemsOf(name: string, ...set: string[]): Promise<Record<string, string>[]> {
  const error = await rejectionOf(load(name, ...set));
  const problems = error instanceof RecipeError ? error.problems : [error];
  return problems.map((problem) =>
    Object.fromEntries(
      Object.entries(errorFacts(problem)).map(([key, value]) => [key, value.replaceAll(`${folder}/`, '')]),
    ),
  );
}

const BASE = `seed: 3
data:
  source: digits
  splits: { train: 0.7, dev: 0.1, test: 0.2 }
models:
  teacher: resnet20
  student: { use: resnet8 }
stages:
  - name: teacher
    model: teacher
    strategies: [supervised]
    optimizer: { use: sgd, rate: 0.1 }
    epochs: 10
  - name: student
    model: student
    teachers: { big: teacher }
    strategies: [supervised, { use: distillation, temperature: 2 }]
    optimizer: { use: sgd, rate: 0.1, momentum: 0.5 }
    epochs: 10
`;

describe('loadRecipe', () => {
  it('spells short forms out and fills in every default', async () => {
    write({ 'base.yaml': BASE });
    const { recipe, files } = await load('base.yaml');
    expect(files).toEqual([join(folder, 'base.yaml')]);
    expect(recipe).toMatchObject({
      name: 'base',
      baseFolder: folder,
      plugins: [],
      data: { source: { use: 'digits' }, augment: [], normalise: 'model' },
      models: { student: { use: 'resnet8' } },
      run: { keep: { last: 1, best: 1, monitor: 'dev/top1' }, evaluateEvery: 1 },
      engine: { device: 'auto' },
    });
    expect(recipe.stages[1]).toMatchObject({
      teachers: { big: { model: 'teacher', mode: 'infer' } },
      strategies: [
        { use: 'supervised', weight: 1, labelSmoothing: 0 },
        { use: 'distillation', temperature: 2, weight: 1 },
      ],
      optimizer: { use: 'sgd', rate: 0.1, momentum: 0.5, nesterov: false },
      schedule: { use: 'constant' },
      batch: 64,
      accumulate: 1,
      data: { items: 'all' },
    });
    expect(recipe).not.toHaveProperty('extends');
    expect(Object.isFrozen(recipe.stages[1]!.strategies[0])).toBe(true);
  });

  it('is saved so that loading gives the same recipe again, from any folder', async () => {
    write({
      'base.yaml': BASE,
      'sub/heir.yaml': 'extends: ../base.yaml\nplugins: [./mine.mjs]\n',
      'sub/mine.mjs': PLUGIN,
    });
    const { recipe } = await load('sub/heir.yaml');
    write({ 'runs/x/recipe.yaml': saveResolved(recipe) });
    const again = await load('runs/x/recipe.yaml');
    expect(again.recipe).toEqual(recipe);
    expect(recipe).toMatchObject({ name: 'heir', baseFolder: join(folder, 'sub'), plugins: ['./mine.mjs'] });
  });

  it('reports every problem at once, in order, each with its place and the nearest known name', async () => {
    write({
      'bad.yaml': `sede: 3
data:
  source: digit
  labeled: 3
  input: [28, 28]
models:
  student: { use: resnet8, widht: 3 }
stages:
  - name: student
    model: studnt
    teachers: { big: { model: student, flor: 0.9 } }
    strategies: [{ use: distillation, temprature: 2 }, { use: supervised, weight: -1 }]
    optimizer: { use: sgd, rate: fast }
    batch: 0
  - name: student
    model: student
    strategies: []
    optimizer: sgd
    epochs: 2
    steps: 3
    monitor: dve/top1
    patience: 2
engine: { device: gpu, mode: grpah }
report: { baseline: studnet }
`,
    });
    expect(await problemsOf('bad.yaml')).toEqual([
      {
        code: 'RECIPE_UNKNOWN_KEY',
        message: 'unknown key "sede": did you mean "seed"?',
        hint: expect.stringMatching(/^Known: seed, /),
        at: 'bad.yaml:1:1',
      },
      {
        code: 'UNKNOWN_PLUGIN',
        message: 'unknown source "digit": did you mean "digits"?',
        hint: expect.stringMatching(/^Known: digits, /),
        at: 'bad.yaml:3:11',
      },
      {
        code: 'RECIPE_UNKNOWN_KEY',
        message: 'unknown key "labeled": did you mean "labelled"?',
        hint: expect.stringMatching(/^Known: labelled, /),
        at: 'bad.yaml:4:3',
      },
      {
        code: 'RECIPE_VALUE',
        message: 'data.input: expected a list of at least 3 items, got [28,28]',
        at: 'bad.yaml:5:10',
      },
      {
        code: 'RECIPE_UNKNOWN_KEY',
        message: 'unknown key "widht": did you mean "widths"?',
        hint: expect.stringMatching(/^Known: widths, /),
        at: 'bad.yaml:7:28',
      },
      {
        code: 'RECIPE_MISSING',
        message: 'expected `epochs` or `steps`, got neither',
        hint: 'One of them says how long the stage trains.',
        at: 'bad.yaml:9:5',
      },
      {
        code: 'UNKNOWN_MODEL',
        message: 'unknown model "studnt": did you mean "student"?',
        hint: 'Known: student.',
        at: 'bad.yaml:10:12',
      },
      {
        code: 'RECIPE_UNTRAINED_MODEL',
        message: 'the teacher "student" would have random values: no earlier stage trains it, and it has no `weights`',
        hint: 'Put a stage that trains it first, or give `weights`.',
        at: 'bad.yaml:11:31',
      },
      {
        code: 'RECIPE_UNKNOWN_KEY',
        message: 'unknown key "flor": did you mean "floor"?',
        hint: 'Known: floor, mode, model.',
        at: 'bad.yaml:11:40',
      },
      {
        code: 'RECIPE_UNKNOWN_KEY',
        message: 'unknown key "temprature": did you mean "temperature"?',
        hint: expect.stringMatching(/^Known: temperature, /),
        at: 'bad.yaml:12:39',
      },
      {
        code: 'RECIPE_VALUE',
        message: 'stages[0].strategies[1].weight: expected at least 0, got -1',
        at: 'bad.yaml:12:83',
      },
      {
        code: 'RECIPE_VALUE',
        message: 'stages[0].optimizer.rate: expected a number, got "fast"',
        at: 'bad.yaml:13:34',
      },
      { code: 'RECIPE_VALUE', message: 'stages[0].batch: expected more than 0, got 0', at: 'bad.yaml:14:12' },
      {
        code: 'RECIPE_DUPLICATE_STAGE',
        message: 'expected stages of different names, "student" comes twice',
        hint: 'Rename one of them.',
        at: 'bad.yaml:15:11',
      },
      {
        code: 'RECIPE_VALUE',
        message: 'stages[1].strategies: expected a list of at least 1 items, got []',
        at: 'bad.yaml:17:17',
      },
      { code: 'RECIPE_MISSING', message: 'missing key "rate": expected a number', at: 'bad.yaml:18:16' },
      {
        code: 'RECIPE_VALUE',
        message: 'expected either `epochs` or `steps`, got both',
        hint: 'One of them says how long the stage trains.',
        at: 'bad.yaml:20:12',
      },
      {
        code: 'RECIPE_VALUE',
        message: 'engine.device: expected auto, cpu or gpu:0, got "gpu"',
        at: 'bad.yaml:23:19',
      },
      {
        code: 'RECIPE_VALUE',
        message: 'engine.mode: expected one of eager, graph, xla, got "grpah": did you mean "graph"?',
        at: 'bad.yaml:23:30',
      },
      {
        code: 'UNKNOWN_STAGE',
        message: 'unknown stage "studnet": did you mean "student"?',
        hint: 'Known: student.',
        at: 'bad.yaml:24:21',
      },
    ]);
  });

  it('shows several problems as one text', async () => {
    write({ 'two.yaml': BASE.replace('seed: 3', 'sede: 3').replace('epochs: 10', 'epochs: ten') });
    const error = await rejectionOf(load('two.yaml'));
    expect(error.code).toBe('RECIPE_INVALID');
    expect(error.message.replaceAll(`${folder}/`, '')).toMatch(
      /^expected a valid recipe, found 2 problems:\n {2}two\.yaml:1:1: unknown key "sede": did you mean "seed"\? \(Known: .*\)\n {2}two\.yaml:13:13: stages\[0\]\.epochs: expected a number, got "ten"$/,
    );
  });

  it('finds splits that are not there, and a teacher that is the student', async () => {
    write({
      'x.yaml': BASE.replace('{ big: teacher }', '{ big: student }')
        .replace('epochs: 10\n  - name', 'epochs: 10\n    patience: 2\n    monitor: dve/top1\n  - name')
        .concat('run: { keep: { monitor: tset/loss } }\n'),
    });
    expect(await problemsOf('x.yaml')).toEqual([
      {
        code: 'UNKNOWN_SPLIT',
        message: 'unknown split "dve": did you mean "dev"?',
        hint: 'Known: train, dev, test.',
        at: 'x.yaml:15:14',
      },
      {
        code: 'RECIPE_TEACHER_IS_STUDENT',
        message: 'expected a teacher other than the student, got "student" for both',
        hint: 'Give the student a model of its own under `models` (`initial` copies the values of another).',
        at: 'x.yaml:18:22',
      },
      {
        code: 'UNKNOWN_SPLIT',
        message: 'unknown split "tset": did you mean "test"?',
        hint: 'Known: train, dev, test.',
        at: 'x.yaml:22:25',
      },
    ]);
  });

  it('says what file is missing, with the nearest name of the folder', async () => {
    write({ 'base.yaml': BASE, 'heir.yaml': 'extends: [base.yml]\n', 'far.yaml': 'extends: nowhere/base.yaml\n' });
    expect(await problemsOf('bas.yaml')).toEqual([
      {
        code: 'RECIPE_NOT_FOUND',
        message: 'no recipe at bas.yaml: did you mean "base.yaml"?',
        hint: `Recipes in ${folder}: base.yaml, far.yaml, heir.yaml.`,
      },
    ]);
    expect(await problemsOf('heir.yaml')).toMatchObject([
      { code: 'RECIPE_NOT_FOUND', message: 'no recipe at base.yml: did you mean "base.yaml"?', at: 'heir.yaml:1:11' },
    ]);
    expect(await problemsOf('far.yaml')).toMatchObject([
      { hint: 'The folder nowhere does not exist.', at: 'far.yaml:1:10' },
    ]);
    mkdirSync(join(folder, 'dir.yaml'));
    expect(await problemsOf('dir.yaml')).toMatchObject([
      { code: 'RECIPE_UNREADABLE', hint: 'Give the YAML file, not its folder.' },
    ]);
  });
});

describe('YAML', () => {
  it('shows syntax errors with their place', async () => {
    write({
      'a.yaml': 'seed: 1\ndata: [1, 2\nmodels: {}\n',
      'b.yaml': 'seed: 1\nseed: 2\n',
      'c.yaml': '',
      'd.yaml': '- 1\n',
    });
    expect(await problemsOf('a.yaml')).toMatchObject([{ code: 'RECIPE_SYNTAX', at: 'a.yaml:3:1' }]);
    expect(await problemsOf('b.yaml')).toEqual([
      {
        code: 'RECIPE_SYNTAX',
        message: 'Map keys must be unique',
        hint: 'See the YAML just before this place.',
        at: 'b.yaml:2:1',
      },
    ]);
    for (const name of ['c.yaml', 'd.yaml']) {
      expect(await problemsOf(name)).toEqual([
        {
          code: 'RECIPE_VALUE',
          message: 'expected a map with `data`, `models` and `stages` at the top of a recipe',
          at: `${name}:1:1`,
        },
      ]);
    }
  });

  it('is data only: no tags, no aliases that grow without bound, no circles', async () => {
    write({
      'tag.yaml': 'seed: !import_call os.system\n',
      'bomb.yaml': `${Array.from(
        { length: 9 },
        (_, i) =>
          `a${i}: &a${i} [${
            i === 0
              ? '1'
              : Array(9)
                  .fill(`*a${i - 1}`)
                  .join(', ')
          }]`,
      ).join('\n')}\n`,
      'circle.yaml': 'a: &a [*a]\n',
    });
    expect(await problemsOf('tag.yaml')).toEqual([
      {
        code: 'RECIPE_SYNTAX',
        message: 'Unresolved tag: !import_call',
        hint: 'A recipe is data only: leave the tag out.',
        at: 'tag.yaml:1:7',
      },
    ]);
    expect(await problemsOf('bomb.yaml')).toMatchObject([
      { code: 'RECIPE_SYNTAX', message: 'expected at most 20000 values, aliases written out' },
    ]);
    expect(await problemsOf('circle.yaml')).toMatchObject([
      { code: 'RECIPE_SYNTAX', message: 'the alias *a stands for itself or for nothing' },
    ]);
  });

  it('lets anchors share, and keys be called like members of objects', async () => {
    write({
      'shared.yaml': BASE.replace(
        'optimizer: { use: sgd, rate: 0.1 }',
        'optimizer: &sgd { use: sgd, rate: 0.3 }',
      ).replace('optimizer: { use: sgd, rate: 0.1, momentum: 0.5 }', 'optimizer: *sgd'),
      'proto.yaml': `${BASE}__proto__: { polluted: true }\n`,
    });
    const { recipe } = await load('shared.yaml');
    expect(recipe.stages.map(({ optimizer }) => optimizer['rate'])).toEqual([0.3, 0.3]);
    expect(await problemsOf('proto.yaml')).toMatchObject([
      { code: 'RECIPE_UNKNOWN_KEY', message: 'unknown key "__proto__"' },
    ]);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });
});

describe('extends', () => {
  it('merges maps, replaces lists, changes list entries by name, and takes keys away by null', async () => {
    write({
      'base.yaml': BASE,
      'heir.yaml': `extends: base.yaml
name: mine
seed: null
data: { splits: { test: null }, augment: [flip] }
stages:
  teacher: { optimizer: { rate: 0.05 }, epochs: 3 }
  student:
    strategies: { distillation: { weight: 0.5 }, supervised: { weight: 0.25 } }
    optimizer: { use: adamw, rate: 0.001 }
`,
    });
    const { recipe, files } = await load('heir.yaml');
    expect(files).toEqual([join(folder, 'heir.yaml'), join(folder, 'base.yaml')]);
    expect(recipe).toMatchObject({
      name: 'mine',
      seed: 1,
      data: { splits: { train: 0.7, dev: 0.1 }, augment: [{ use: 'flip' }] },
    });
    expect(recipe.data.splits).not.toHaveProperty('test');
    const [teacher, student] = recipe.stages;
    expect(teacher).toMatchObject({ optimizer: { use: 'sgd', rate: 0.05, momentum: 0.9 }, epochs: 3 });
    expect(student).toMatchObject({
      epochs: 10,
      strategies: [
        { use: 'supervised', weight: 0.25 },
        { use: 'distillation', weight: 0.5, temperature: 2 },
      ],
      optimizer: { use: 'adamw', rate: 0.001 },
    });
    expect(student!.optimizer).not.toHaveProperty('momentum');
  });

  it('lets later bases win, and goes through several levels', async () => {
    write({
      'base.yaml': BASE,
      'fast.yaml': 'extends: base.yaml\nseed: 7\nengine: { threads: 2 }\nstages: { teacher: { epochs: 1 } }\n',
      'tiny.yaml': 'seed: 8\nengine: { device: cpu }\n',
      'heir.yaml': 'extends: [fast.yaml, tiny.yaml]\nengine: { mode: eager }\n',
    });
    const { recipe } = await load('heir.yaml');
    expect(recipe).toMatchObject({ seed: 8, engine: { threads: 2, device: 'cpu', mode: 'eager' } });
    expect(recipe.stages[0]!.epochs).toBe(1);
  });

  it('points into the file where a value was written', async () => {
    write({
      'lib/base.yaml': BASE.replace('rate: 0.1 }', 'rate: -1 }'),
      'heir.yaml': 'extends: lib/base.yaml\nstages:\n  student: { optimizer: { momentun: 1 }, bacth: 3 }\n',
    });
    expect(await problemsOf('heir.yaml')).toEqual([
      {
        code: 'RECIPE_VALUE',
        message: 'stages[0].optimizer.rate: expected more than 0, got -1',
        at: 'lib/base.yaml:12:34',
      },
      {
        code: 'RECIPE_UNKNOWN_KEY',
        message: 'unknown key "momentun": did you mean "momentum"?',
        hint: expect.stringMatching(/^Known: momentum, /),
        at: 'heir.yaml:3:27',
      },
      {
        code: 'RECIPE_UNKNOWN_KEY',
        message: 'unknown key "bacth": did you mean "batch"?',
        hint: expect.stringMatching(/^Known: batch, /),
        at: 'heir.yaml:3:42',
      },
    ]);
  });

  it('refuses circles and entries that are not there', async () => {
    write({
      'a.yaml': 'extends: b.yaml\n',
      'b.yaml': 'extends: a.yaml\n',
      'base.yaml': BASE,
      'heir.yaml': 'extends: base.yaml\nstages:\n  studnt: { epochs: 3 }\n',
      'odd.yaml': 'extends: { file: base.yaml }\n',
    });
    expect(await problemsOf('a.yaml')).toEqual([
      {
        code: 'RECIPE_EXTENDS',
        message: 'expected recipes that do not extend each other in a circle, got a.yaml -> b.yaml -> a.yaml',
        hint: 'Move what they share to a third recipe.',
        at: 'b.yaml:1:10',
      },
    ]);
    expect(await problemsOf('heir.yaml')).toEqual([
      {
        code: 'RECIPE_UNKNOWN_ENTRY',
        message: 'unknown entry "studnt": did you mean "student"?',
        hint: 'Known: student, teacher.',
        at: 'heir.yaml:3:3',
      },
    ]);
    expect(await problemsOf('odd.yaml')).toMatchObject([{ code: 'RECIPE_VALUE', at: 'odd.yaml:1:10' }]);
  });
});

describe('--set', () => {
  it('addresses keys, list entries by name, by use and by number; values are YAML', async () => {
    write({ 'base.yaml': BASE });
    const { recipe } = await load(
      'base.yaml',
      'seed=9',
      'engine.device=cpu',
      'stages.student.batch=8',
      'stages[0].epochs=2',
      'stages.1.strategies.distillation.temperature=5',
      'stages.student.strategies.supervised.weight=0.5',
      'data.augment=[flip, { use: random-crop, padding: 2 }]',
      'data.augment.random-crop.padding=3',
      'data.splits=',
      'stages.student.ema={}',
    );
    expect(recipe).toMatchObject({ seed: 9, engine: { device: 'cpu' } });
    expect(recipe.data.augment).toMatchObject([{ use: 'flip' }, { use: 'random-crop', padding: 3 }]);
    expect(recipe.data.splits).toBeUndefined();
    expect(recipe.stages[0]!.epochs).toBe(2);
    expect(recipe.stages[1]).toMatchObject({
      batch: 8,
      ema: { decay: 0.999, warmup: true, evaluate: 'ema' },
      strategies: [
        { use: 'supervised', weight: 0.5 },
        { use: 'distillation', temperature: 5 },
      ],
    });
  });

  it('points at the setting', async () => {
    write({ 'base.yaml': BASE });
    const one = async (setting: string) => (await problemsOf('base.yaml', setting))[0];
    expect(await one('stages.student.bach=8')).toEqual({
      code: 'RECIPE_UNKNOWN_KEY',
      message: 'unknown key "bach": did you mean "batch"?',
      hint: expect.stringMatching(/^Known: batch, /),
      at: '--set stages.student.bach=8',
    });
    expect(await one('engin.device=cpu')).toMatchObject({
      message: 'unknown key "engin": did you mean "engine"?',
      at: '--set engin.device=cpu',
    });
    expect(await one('stages.studnt.batch=8')).toEqual({
      code: 'RECIPE_UNKNOWN_ENTRY',
      message: 'unknown entry "studnt": did you mean "student"?',
      hint: 'Known: student, teacher.',
      at: '--set stages.studnt.batch=8',
    });
    expect(await one('stages[2].batch=8')).toEqual({
      code: 'RECIPE_UNKNOWN_ENTRY',
      message: 'expected a number below 2, the length of the list, got 2',
      hint: 'Entries are counted from 0.',
      at: '--set stages[2].batch=8',
    });
    expect(await one('stages.student.batch=many')).toEqual({
      code: 'RECIPE_VALUE',
      message: 'stages[1].batch: expected a number, got "many"',
      at: '--set stages.student.batch=many',
    });
    expect(await one('models.teacher.weights=x.safetensors')).toEqual({
      code: 'RECIPE_SET',
      message: 'expected "models.teacher" to be a map or a list, it is "resnet20"',
      hint: "Set the whole of it: --set 'models.teacher={ use: resnet20, weights: … }'.",
      at: '--set models.teacher.weights=x.safetensors',
    });
    for (const setting of ['seed', '=3', 'a..b=1', 'a b=1']) {
      expect(await one(setting)).toEqual({
        code: 'RECIPE_SET',
        message: `expected --set path=value, got "${setting}"`,
        hint: 'For instance `--set seed=2` or `--set stages.student.optimizer.rate=0.1`.',
        at: `--set ${setting}`,
      });
    }
    expect(await one('seed=[1')).toMatchObject({ code: 'RECIPE_SYNTAX', at: '--set seed=[1' });
  });
});

const PLUGIN = `
import { z } from ${JSON.stringify(import.meta.resolve('zod'))};
class Mine { terms() { return {}; } }
export default { name: 'mine', kind: 'strategy', apiVersion: 1, options: z.strictObject({ sharpness: z.number().default(2) }), implementation: Mine };
`;

describe('plugins of a recipe', () => {
  it('come into its schema, relative to the file that names them, and stay out of the given host', async () => {
    write({
      'lib/base.yaml': `plugins: [./mine.mjs]\n${BASE.replace('strategies: [supervised]', 'strategies: [{ use: mine, sharpness: 3 }]')}`,
      'lib/mine.mjs': PLUGIN,
      'heir.yaml': 'extends: lib/base.yaml\n',
      'typo.yaml': 'extends: lib/base.yaml\nstages: { teacher: { strategies: [{ use: mine, sharpnes: 3 }] } }\n',
      'lost.yaml': `plugins: [./min.mjs]\n${BASE}`,
    });
    const { recipe, host: own } = await load('heir.yaml');
    expect(recipe.stages[0]!.strategies).toEqual([{ use: 'mine', sharpness: 3 }]);
    expect(recipe.plugins).toEqual(['./lib/mine.mjs']);
    expect([own.has('strategy', 'mine'), host.has('strategy', 'mine')]).toEqual([true, false]);
    expect(own.instantiateUse('strategy', recipe.stages[0]!.strategies[0]!)).toBeTypeOf('object');
    expect(await problemsOf('typo.yaml')).toEqual([
      {
        code: 'RECIPE_UNKNOWN_KEY',
        message: 'unknown key "sharpnes": did you mean "sharpness"?',
        hint: 'Known: sharpness.',
        at: 'typo.yaml:2:48',
      },
    ]);
    expect(await problemsOf('lost.yaml')).toEqual([
      {
        code: 'PLUGIN_NOT_FOUND',
        message: expect.stringMatching(/^no plugin at .*min\.mjs/),
        hint: 'Tried min.mjs.',
        at: 'lost.yaml:1:11',
      },
    ]);
  });

  it('may not take the name of a built-in one', async () => {
    write({ 'x.yaml': `plugins: [./mine.mjs]\n${BASE}`, 'mine.mjs': PLUGIN.replace("'mine'", "'supervised'") });
    expect(await problemsOf('x.yaml')).toEqual([
      {
        code: 'PLUGIN_DUPLICATE',
        message: 'expected one strategy named "supervised", found two: built in and mine.mjs',
        hint: 'Rename one of them.',
        at: 'mine.mjs',
        plugin: 'supervised',
      },
    ]);
  });
});

describe('parseRecipe', () => {
  it('takes a text, with relative paths from a folder', async () => {
    const { recipe, place } = await parseRecipe(BASE, '/somewhere', host);
    expect(recipe.baseFolder).toBe('/somewhere');
    expect(place(['stages', 1, 'optimizer', 'momentum'])).toBe('recipe:18:49');
  });
});

describe('shipped recipes', () => {
  const repository = fileURLToPath(new URL('../../', import.meta.url));
  const recipes = ['plugins', 'recipes'].flatMap((place) =>
    (readdirSync(join(repository, place), { recursive: true }) as string[])
      .filter((name) => name.endsWith('.yaml'))
      .map((name) => join(place, name)),
  );

  it.each(recipes)('%s is valid', async (name) => {
    expect((await loadRecipe(join(repository, name), {}, host)).recipe.stages.length).toBeGreaterThan(0);
  });
});
