import { AlambicError } from '../../src/errors.ts';

/** Everything an error says, as one object to compare whole. */
export function errorFacts(error: unknown): Record<string, string> {
  if (!(error instanceof AlambicError)) throw error;
  const { code, message, hint, at, plugin } = error;
  return Object.fromEntries(
    Object.entries({ code, message, hint, at, plugin }).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    ),
  );
}

/** What a call throws. */
export function thrownBy(call: () => unknown): Record<string, string> {
  try {
    call();
  } catch (error) {
    return errorFacts(error);
  }
  throw new Error('expected an error, got none');
}

/** What a promise is rejected with. */
export async function rejectionOf(promise: Promise<unknown>): Promise<AlambicError> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof AlambicError) return error;
    throw error;
  }
  throw new Error('expected an error, got none');
}
