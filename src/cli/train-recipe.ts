import { writeFile } from 'node:fs/promises';
import { relative } from 'node:path';
import { AlambicError, EXIT } from '../errors.ts';
import { LiveLogger } from '../loggers/live.ts';
import { PlainLogger } from '../loggers/plain.ts';
import { createHost } from '../plugin-host/builtins.ts';
import type { Listener } from '../plugin-host/contract.ts';
import { type LoadedRecipe, loadRecipe } from '../recipe/load.ts';
import { collectReport } from '../report/collect.ts';
import { renderReport } from '../report/render.ts';
import { resultOf } from '../report/run-summary.ts';
import { terminalSummary } from '../report/terminal-summary.ts';
import { type RunResult, runRecipe } from '../train/run.ts';
import { runPaths } from '../train/run-folder.ts';
import type { CommandCall, CommandOptions } from './command.ts';
import { listenForInterruption } from './interrupt.ts';
import type { Writer } from './writer.ts';

/** Loads a recipe with what the command line changes in it. */
export function loadWithOptions(path: string, { set = [], seed }: CommandOptions): Promise<LoadedRecipe> {
  return loadRecipe(path, { set: seed === undefined ? set : [...set, `seed=${seed}`] }, createHost());
}

/** Runs a recipe with progress on the terminal, then writes the report and shows what came out; resolves to the exit code. */
export async function trainRecipe(
  loaded: LoadedRecipe,
  { options, writer, commandLine }: CommandCall,
): Promise<number> {
  if (options.resume && options.run === undefined) {
    throw new AlambicError('USAGE', 'expected --run with --resume: which run should go on?', {
      hint: 'Name its folder: `--run runs/… --resume`.',
    });
  }
  const { listener, keep } = progressOf(writer);
  const interruption = listenForInterruption(writer, keep);
  const { mode, device } = { mode: options.engine, device: options.device };
  let result: RunResult;
  try {
    result = await runRecipe(loaded, {
      listeners: [listener],
      signal: interruption.signal,
      command: commandLine,
      say: (line) => writer.line(line),
      engine: { ...(mode === undefined ? {} : { mode }), ...(device === undefined ? {} : { device }) },
      ...(options.run === undefined ? {} : { folder: options.run }),
      ...(options.resume === undefined ? {} : { resume: options.resume }),
      ...(options.limit === undefined ? {} : { limitUpdates: options.limit }),
    });
  } finally {
    await listener.close?.();
    interruption.dispose();
  }
  if (result.interrupted) {
    writer.json({ type: 'result', folder: result.folder, interrupted: true });
    return EXIT.interrupted;
  }
  await showResult(result, writer);
  return EXIT.ok;
}

async function showResult({ folder, summary }: RunResult, writer: Writer): Promise<void> {
  const result = resultOf(summary);
  if (result.stages.length === 0) {
    writer.result(
      `Trained ${summary.stages.length} stages; without a held-out split there is nothing to report. Models: ${runPaths(folder).models}`,
      {
        type: 'result',
        folder,
        stages: [],
      },
    );
    return;
  }
  const { report } = runPaths(folder);
  await writeFile(report, renderReport(await collectReport(folder)));
  writer.result(terminalSummary(result, { colors: writer.colors, width: writer.width, report: shownPath(report) }), {
    type: 'result',
    folder,
    report,
    stages: result.stages.map(({ confusion: _, calibration: __, correct: ___, ...stage }) => stage),
  });
}

/** A path as one would type it here: relative where it lies below. */
function shownPath(path: string): string {
  const short = relative('.', path);
  return short.startsWith('..') ? path : short;
}

/** Follows the run as the output mode asks for. */
function progressOf(writer: Writer): { listener: Listener; keep: (text: string) => void } {
  const warn = (text: string) => writer.warn(text);
  switch (writer.mode) {
    case 'live': {
      const logger = new LiveLogger(writer.terminal.stdout as NodeJS.WriteStream, writer.colors);
      return { listener: logger, keep: (text) => logger.keep(text) };
    }
    case 'plain':
      return {
        listener: new PlainLogger({ write: (line) => writer.line(line), colors: writer.colors, width: writer.width }),
        keep: warn,
      };
    case 'json':
      return { listener: { on: (event) => writer.json(event) }, keep: warn };
    case 'quiet':
      return { listener: { on: () => undefined }, keep: warn };
  }
}
