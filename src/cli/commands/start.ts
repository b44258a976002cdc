import { fileURLToPath } from 'node:url';
import type { Command } from '../command.ts';
import { loadWithOptions, trainRecipe } from '../train-recipe.ts';

/** The recipe that shows what alambic does, from nothing to a distilled student. */
const RECIPE = fileURLToPath(new URL('../../../recipes/digits/start.yaml', import.meta.url));

/** `alambic start`: runs the first recipe. */
export const run: Command = async (call) => trainRecipe(await loadWithOptions(RECIPE, call.options), call);
