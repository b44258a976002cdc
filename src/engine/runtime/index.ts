import { AlambicError } from '../../errors.ts';

export { type LoadedLibrary, loadLibrary } from './load.ts';

/** For the moment only the folder that the environment names. */
export async function ensureRuntime(_options: { say?: (line: string) => void } = {}): Promise<{ folder: string }> {
  const folder = process.env['ALAMBIC_TENSORFLOW_DIR'];
  if (folder === undefined || folder === '') {
    throw new AlambicError('RUNTIME_NOT_FOUND', 'expected ALAMBIC_TENSORFLOW_DIR to be set', {
      hint: "Set it to a folder that holds TensorFlow's libraries.",
    });
  }
  return { folder };
}
