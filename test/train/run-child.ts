import { runRecipe } from '../../src/train/run.ts';
import { loadText } from './run-setup.ts';

/** A run in a process of its own, that its parent kills: says each event's type and goes on where the folder stands. */
const [folder, resume] = process.argv.slice(2) as [string, string];
await runRecipe(await loadText(), {
  folder,
  resume: resume === 'resume',
  listeners: [{ on: ({ type }) => void process.stdout.write(`${type}\n`) }],
});
