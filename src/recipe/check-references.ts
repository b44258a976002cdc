import { nearestName } from '../errors.ts';

/** A problem between parts of a recipe, found without running anything. */
export interface ReferenceProblem {
  readonly path: readonly (string | number)[];
  readonly code: string;
  readonly message: string;
  readonly hint: string;
}

type Plain = Readonly<Record<string, unknown>>;

const map = (value: unknown): Plain =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Plain) : {};
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

/**
 * Checks that the parts of a recipe fit together: models, teachers, stages and metrics that are named do exist. Works on the recipe as it
 * was written, so that these problems are shown together with those of the schema; what is of the wrong type is the schema's to report.
 */
export function checkReferences(recipe: unknown): ReferenceProblem[] {
  const problems: ReferenceProblem[] = [];
  const { models, stages, report, data, run } = map(recipe);
  const modelNames = Object.keys(map(models));
  const stageNames = [...new Set(list(stages).flatMap((stage) => text(map(stage)['name']) ?? []))];
  const splits = Object.keys(map(map(data)['splits']));

  const known = (code: string, what: string, path: (string | number)[], name: unknown, names: readonly string[]) => {
    if (typeof name !== 'string' || names.includes(name)) return;
    const near = nearestName(name, names);
    const message = `unknown ${what} "${name}"${near === undefined ? '' : `: did you mean "${near}"?`}`;
    problems.push({
      path,
      code,
      message,
      hint: names.length === 0 ? `The recipe has no ${what}.` : `Known: ${names.join(', ')}.`,
    });
  };
  const monitor = (path: (string | number)[], value: unknown) => {
    const split = text(value)?.split('/')[0];
    if (splits.length > 0) known('UNKNOWN_SPLIT', 'split', path, split, [...new Set(['train', ...splits])]);
  };

  const trained = new Set(
    Object.entries(map(models)).flatMap(([name, model]) => (map(model)['weights'] === undefined ? [] : [name])),
  );
  const seen = new Set<string>();
  for (const [i, entry] of list(stages).entries()) {
    const at = (...rest: (string | number)[]) => ['stages', i, ...rest];
    const stage = map(entry);
    const name = text(stage['name']);
    if (name !== undefined && seen.has(name)) {
      problems.push({
        path: at('name'),
        code: 'RECIPE_DUPLICATE_STAGE',
        message: `expected stages of different names, "${name}" comes twice`,
        hint: 'Rename one of them.',
      });
    }
    if (name !== undefined) seen.add(name);
    const model = text(stage['model']);
    known('UNKNOWN_MODEL', 'model', at('model'), model, modelNames);
    const needsValues = (path: (string | number)[], what: string, source: unknown) => {
      known('UNKNOWN_MODEL', 'model', path, source, modelNames);
      if (typeof source !== 'string' || !modelNames.includes(source)) return;
      if (source === model && what !== 'start') {
        problems.push({
          path,
          code: 'RECIPE_TEACHER_IS_STUDENT',
          message: `expected a ${what} other than the student, got "${source}" for both`,
          hint: 'Give the student a model of its own under `models` (`initial` copies the values of another).',
        });
      } else if (!trained.has(source)) {
        problems.push({
          path,
          code: 'RECIPE_UNTRAINED_MODEL',
          message: `the ${what} "${source}" would have random values: no earlier stage trains it, and it has no \`weights\``,
          hint: 'Put a stage that trains it first, or give `weights`.',
        });
      }
    };
    if (stage['initial'] !== undefined) needsValues(at('initial'), 'start', stage['initial']);
    for (const [role, teacher] of Object.entries(map(stage['teachers']))) {
      const isShort = typeof teacher === 'string';
      needsValues(
        at('teachers', role, ...(isShort ? [] : ['model'])),
        'teacher',
        isShort ? teacher : map(teacher)['model'],
      );
    }
    if (model !== undefined) trained.add(model);
    if ((stage['epochs'] === undefined) === (stage['steps'] === undefined)) {
      const both = stage['epochs'] !== undefined;
      problems.push({
        path: both ? at('steps') : at(),
        code: both ? 'RECIPE_VALUE' : 'RECIPE_MISSING',
        message: `expected ${both ? 'either `epochs` or `steps`, got both' : '`epochs` or `steps`, got neither'}`,
        hint: 'One of them says how long the stage trains.',
      });
    }
    monitor(at('monitor'), stage['monitor']);
    if (stage['monitor'] !== undefined && stage['patience'] === undefined) {
      problems.push({
        path: at('monitor'),
        code: 'RECIPE_MISSING',
        message: '`monitor` is watched by `patience`, which is missing',
        hint: 'Add `patience`, or leave `monitor` out. What checkpoints are kept by is `run.keep.monitor`.',
      });
    }
  }
  monitor(['run', 'keep', 'monitor'], map(map(run)['keep'])['monitor']);

  const { compare, baseline } = map(report);
  for (const [i, name] of list(compare).entries())
    known('UNKNOWN_STAGE', 'stage', ['report', 'compare', i], name, stageNames);
  known(
    'UNKNOWN_STAGE',
    'stage',
    ['report', 'baseline'],
    baseline,
    compare === undefined ? stageNames : list(compare).filter((name) => typeof name === 'string'),
  );
  return problems;
}
