import { type Engine, openEngine } from '../engine/engine.ts';
import type { Recipe } from '../recipe/schema.ts';
import type { CommandOptions } from './command.ts';
import type { Writer } from './writer.ts';

/** Opens the engine as the command line says, else as the recipe says. */
export function openEngineFor(options: CommandOptions, writer: Writer, recipe?: Recipe): Promise<Engine> {
  const { threads, mode: recipeMode } = recipe?.engine ?? {};
  const mode = options.engine ?? recipeMode;
  return openEngine({
    device: options.device ?? recipe?.engine.device ?? 'auto',
    ...(mode === undefined ? {} : { mode }),
    ...(threads === undefined ? {} : { threads }),
    say: (line) => writer.line(line),
  });
}
