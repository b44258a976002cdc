import type { Command } from '../command.ts';
import { loadWithOptions, trainRecipe } from '../train-recipe.ts';

/** `alambic train RECIPE`: runs all stages of a recipe. */
export const run: Command = async (call) => {
  const [recipe] = call.args;
  return trainRecipe(await loadWithOptions(recipe as string, call.options), call);
};
