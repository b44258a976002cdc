import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { createHost } from '../../src/plugin-host/builtins.ts';
import { DOCS_FILE, recipeDocsText } from '../../src/recipe/docs-generator.ts';
import { isGenerated } from '../../src/recipe/generated-file.ts';
import { recipeJsonSchema, recipeSchemaText, SCHEMA_FILE } from '../../src/recipe/json-schema.ts';
import { fitsSchema } from './validate-json-schema.ts';

describe('generated files', () => {
  it.each([
    ['schema/recipe.schema.json', SCHEMA_FILE, recipeSchemaText, 'json-schema.ts'],
    ['docs/recipes.md', DOCS_FILE, recipeDocsText, 'docs-generator.ts'],
  ] as const)('%s is current', (_, file, generate, script) => {
    expect(isGenerated(file, generate()), `run node --import tsx src/recipe/${script} --write`).toBe(true);
  });

  it('are found out of date when a byte differs', () => {
    expect(isGenerated(SCHEMA_FILE, `${recipeSchemaText()} `)).toBe(false);
    expect(isGenerated(new URL('./no-such-file', import.meta.url), '')).toBe(false);
  });
});

describe('the JSON Schema', () => {
  const schema = recipeJsonSchema(createHost()) as Readonly<Record<string, unknown>>;
  const recipe = (changes: object = {}, stage: object = {}) => ({
    data: { source: 'digits' },
    models: { student: 'resnet8', big: { use: 'resnet20', weights: 'x.safetensors' } },
    stages: [
      {
        name: 'student',
        model: 'student',
        teachers: { big: 'big' },
        strategies: ['supervised', { use: 'distillation', loss: { use: 'kullback-leibler', temperature: 2 } }],
        optimizer: { use: 'sgd', rate: 0.1 },
        epochs: 1,
        ...stage,
      },
    ],
    ...changes,
  });
  const isValid = (value: unknown) => fitsSchema(value, schema);

  it('takes recipes in short and long form, with plugins of their own, and those that extend others', () => {
    expect(isValid(recipe())).toBe(true);
    expect(
      isValid(recipe({}, { schedule: { use: 'cosine', warmup: 1 }, strategies: ['mine', { use: 'mine', any: 1 }] })),
    ).toBe(true);
    expect(isValid({ extends: 'base.yaml', stages: { student: { epochs: 3 } } })).toBe(true);
  });

  it('refuses unknown keys, wrong values and missing options', () => {
    expect(isValid(recipe({ sede: 3 }))).toBe(false);
    expect(isValid(recipe({ seed: 'three' }))).toBe(false);
    expect(isValid(recipe({}, { bacth: 3 }))).toBe(false);
    expect(isValid(recipe({}, { optimizer: { use: 'sgd', rat: 0.1 } }))).toBe(false);
    expect(isValid(recipe({}, { optimizer: 'sgd' }))).toBe(false);
    expect(isValid({ data: { source: 'digits' } })).toBe(false);
  });

  it('takes every shipped recipe', () => {
    const repository = fileURLToPath(new URL('../../', import.meta.url));
    const files = ['plugins', 'recipes'].flatMap((place) =>
      (readdirSync(join(repository, place), { recursive: true }) as string[])
        .filter((name) => name.endsWith('.yaml'))
        .map((name) => join(repository, place, name)),
    );
    expect(files.length).toBeGreaterThan(1);
    for (const file of files) expect(isValid(parse(readFileSync(file, 'utf8'))), file).toBe(true);
  });

  it('describes every key', () => {
    const text = readFileSync(DOCS_FILE, 'utf8');
    const rows = text.split('\n').filter((line) => line.startsWith('| `'));
    expect(rows.length).toBeGreaterThan(100);
    for (const row of rows) expect(row.split('|').at(-2), row).toMatch(/\S/);
  });
});
