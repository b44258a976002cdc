import type { z } from 'zod';
import type { Use } from '../plugin-host/use.ts';
import { useOf } from '../plugin-host/use.ts';
import { type ModelEntry, recipeSchema } from './schema.ts';

/** The recipe's schema for generators: every use of a plugin is only marked with its kind. */
export function describedRecipe() {
  return recipeSchema(
    (kind) => useOf(kind) as unknown as z.ZodType<Use>,
    useOf('model') as unknown as z.ZodType<ModelEntry>,
  );
}
