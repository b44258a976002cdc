import { AlambicError } from '../../errors.ts';
import type { Command } from '../command.ts';
import { loadWithOptions, trainRecipe } from '../train-recipe.ts';

/** `alambic distil RECIPE`: the same as `train`, but refuses a recipe in which nobody teaches. */
export const run: Command = async (call) => {
  const [recipe] = call.args;
  const loaded = await loadWithOptions(recipe as string, call.options);
  const { stages } = loaded.recipe;
  if (!stages.some(({ teachers }) => Object.keys(teachers).length > 0)) {
    throw new AlambicError(
      'RECIPE_NO_TEACHER',
      `expected a stage with \`teachers\`, found none in ${stages.length} stages: ${stages.map(({ name }) => name).join(', ')}`,
      {
        at: loaded.place(['stages']),
        hint: 'Add `teachers: { teacher: { model: … } }` and the strategy `distillation` to a stage, or use `alambic train`.',
      },
    );
  }
  return trainRecipe(loaded, call);
};
