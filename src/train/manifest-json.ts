import { AlambicError } from '../errors.ts';

/**
 * JSON that gives every number back: JSON.stringify turns NaN, the infinities and -0 into null and 0, and a diverged loss or an untouched
 * "best so far" is one of these. They are written as `{ "$number": "NaN" }`.
 *
 * @throws AlambicError CHECKPOINT_CONTENT for what JSON would drop or change without a word (functions, big integers, typed arrays, dates).
 */
export function encodeJson(value: unknown): string {
  return `${JSON.stringify(mark(value, ''), null, 1)}\n`;
}

/** Throws SyntaxError for text that is no JSON. */
export function decodeJson(text: string): unknown {
  return JSON.parse(text, (_, value: unknown) => {
    if (typeof value !== 'object' || value === null || !('$number' in value)) return value;
    return Number(value.$number);
  });
}

function mark(value: unknown, path: string): unknown {
  switch (typeof value) {
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0)
        ? value
        : { $number: Object.is(value, -0) ? '-0' : String(value) };
    case 'string':
    case 'boolean':
    case 'undefined':
      return value;
    case 'object': {
      if (value === null) return null;
      if (Array.isArray(value)) return value.map((item, i) => mark(item ?? null, `${path}[${i}]`));
      const prototype: unknown = Object.getPrototypeOf(value);
      if (prototype === Object.prototype || prototype === null)
        return Object.fromEntries(
          Object.entries(value).map(([key, item]) => [key, mark(item, path === '' ? key : `${path}.${key}`)]),
        );
      throw contentError(path, `a ${value.constructor.name}`);
    }
    default:
      throw contentError(path, `a ${typeof value}`);
  }
}

function contentError(path: string, what: string): AlambicError {
  return new AlambicError('CHECKPOINT_CONTENT', `${path}: expected plain JSON data, got ${what}`, {
    hint: 'Arrays of numbers belong into `tensors`, free text into `texts`.',
  });
}
