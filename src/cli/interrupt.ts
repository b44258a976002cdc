import { EXIT } from '../errors.ts';
import type { Writer } from './writer.ts';

export interface Interruption {
  /** Aborted by the first SIGINT or SIGTERM; its reason is the signal's name. */
  readonly signal: AbortSignal;
  /** Gives the signals back. */
  dispose(): void;
}

/** What of a process is needed; tests hand in their own. */
export interface SignalSource {
  on(signal: 'SIGINT' | 'SIGTERM', listener: (name: 'SIGINT' | 'SIGTERM') => void): unknown;
  off(signal: 'SIGINT' | 'SIGTERM', listener: (name: 'SIGINT' | 'SIGTERM') => void): unknown;
  exit(code: number): unknown;
}

const NAMES = ['SIGINT', 'SIGTERM'] as const;

/** The first signal asks the trainer to save and end; the second one ends the process at once. */
export function listenForInterruption(
  writer: Pick<Writer, 'warn'>,
  notice: (text: string) => void = (text) => writer.warn(text),
  source: SignalSource = process,
): Interruption {
  const controller = new AbortController();
  const listener = (name: 'SIGINT' | 'SIGTERM') => {
    if (controller.signal.aborted) {
      source.exit(EXIT.interrupted);
      return;
    }
    controller.abort(name);
    notice('stopping: saving a checkpoint first. Press Ctrl-C again to stop at once.');
  };
  for (const name of NAMES) source.on(name, listener);
  return {
    signal: controller.signal,
    dispose: () => {
      for (const name of NAMES) source.off(name, listener);
    },
  };
}
