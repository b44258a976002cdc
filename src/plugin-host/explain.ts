import type { z } from 'zod';
import { nearestName, rankByLikeness } from '../errors.ts';

/** One thing that is wrong with a value, in the user's words. */
export interface Problem {
  /** Path of the value; for an unknown key, the path of the key. */
  readonly path: readonly (string | number)[];
  readonly code: 'UNKNOWN_KEY' | 'MISSING' | 'VALUE' | 'UNKNOWN_PLUGIN';
  readonly message: string;
  readonly hint: string | undefined;
}

// An error map may give back one string only: the hint travels behind a character that no message holds.
const HINT = '\u0000';

/** A message with its hint, as `problemsOf` takes it apart again. */
export function withHint(message: string, hint: string | undefined): string {
  return hint === undefined ? message : `${message}${HINT}${hint}`;
}

function splitHint(text: string): { message: string; hint: string | undefined } {
  const at = text.indexOf(HINT);
  return at < 0 ? { message: text, hint: undefined } : { message: text.slice(0, at), hint: text.slice(at + 1) };
}

const EXPECTED: Record<string, string> = {
  int: 'a whole number',
  number: 'a number',
  string: 'text',
  boolean: 'true or false',
  array: 'a list',
  tuple: 'a list',
  object: 'a map',
  record: 'a map',
};

/** A value as it is shown in a message: short, and distinguishable from other types. */
export function showValue(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (typeof value === 'number' || typeof value === 'bigint') return String(value);
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value) && value.length > 6) return `a list of ${value.length}`;
  const text = JSON.stringify(value) ?? String(value);
  if (text.length <= 60) return text;
  return Array.isArray(value)
    ? `a list of ${value.length}`
    : typeof value === 'string'
      ? `${text.slice(0, 57)}…"`
      : 'a map';
}

function known(names: readonly string[]): string {
  return names.length === 0 ? 'No key is known here.' : `Known: ${names.join(', ')}.`;
}

function size(
  issue: z.core.$ZodRawIssue<z.core.$ZodIssueTooSmall | z.core.$ZodIssueTooBig>,
  limit: unknown,
  word: string,
) {
  const bound = issue.inclusive === false ? (word === 'at least' ? 'more than' : 'less than') : word;
  if (issue.origin === 'string') return `text of ${bound} ${limit} characters`;
  if (issue.origin === 'array' || issue.origin === 'set') return `a list of ${bound} ${limit} items`;
  return `${bound} ${limit}`;
}

/** Error map for zod: what was expected, what came, and the nearest known name. Its texts are read by `problemsOf`. */
export function explain(issue: z.core.$ZodRawIssue): string {
  const got = showValue(issue.input);
  switch (issue.code) {
    case 'invalid_type': {
      const expected = EXPECTED[issue.expected as string] ?? String(issue.expected);
      return `expected ${expected}, got ${Number.isNaN(issue.input) ? 'NaN' : got}`;
    }
    case 'invalid_value': {
      const values = (issue.values as readonly unknown[]).map(String);
      const near = typeof issue.input === 'string' ? nearestName(issue.input, values) : undefined;
      const list = values.length === 1 ? values[0] : `one of ${values.join(', ')}`;
      return `expected ${list}, got ${got}${near === undefined ? '' : `: did you mean "${near}"?`}`;
    }
    case 'too_small':
      return `expected ${size(issue as never, issue.minimum, 'at least')}, got ${got}`;
    case 'too_big':
      return `expected ${size(issue as never, issue.maximum, 'at most')}, got ${got}`;
    case 'not_multiple_of':
      return `expected a multiple of ${issue.divisor}, got ${got}`;
    case 'invalid_format':
      return `expected text of the form ${issue.pattern ?? issue.format}, got ${got}`;
    case 'unrecognized_keys': {
      // One text for all unknown keys of a map: `problemsOf` makes one problem of each line.
      const shape = (issue.inst?._zod.def as { shape?: Record<string, unknown> } | undefined)?.shape ?? {};
      return (issue.keys as readonly string[])
        .map((key) => {
          const ranked = rankByLikeness(key, Object.keys(shape));
          const near = nearestName(key, ranked);
          return withHint(
            `unknown key "${key}"${near === undefined ? '' : `: did you mean "${near}"?`}`,
            known(ranked),
          );
        })
        .join('\n');
    }
    case 'invalid_key':
      return `expected another key, got "${String(issue.path?.at(-1) ?? '')}"`;
    case 'invalid_union':
      return `expected another value, got ${got}`;
    default:
      return `expected another value, got ${got}`;
  }
}

/** A branch of a union whose very type does not fit says nothing about what the user meant. */
function isOffType(issues: readonly z.core.$ZodIssue[]): boolean {
  return issues.some(({ code, path }) => path.length === 0 && (code === 'invalid_type' || code === 'invalid_value'));
}

function explainUnion(issue: z.core.$ZodIssueInvalidUnion): Problem[] {
  const branches = issue.errors.filter((issues) => issues.length > 0);
  const fitting = branches.filter((issues) => !isOffType(issues));
  if (fitting.length > 0) {
    const [first] = [...fitting].sort((a, b) => a.length - b.length);
    return problemsOf(first!.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] })));
  }
  const parts = branches.flatMap((issues) => problemsOf(issues.slice(0, 1))).map(({ message }) => message);
  const split = parts.map((part) => /^expected (.*), got (.*)$/s.exec(part));
  const got = split.find((match) => match !== null)?.[2];
  const expected = [...new Set(split.flatMap((match) => (match === null ? [] : [match[1]!])))];
  if (got === 'nothing' && issue.path.length > 0) {
    const path = clean(issue.path);
    return [
      {
        path,
        code: 'MISSING',
        message: `missing key "${path.at(-1)}": expected ${expected.join(' or ')}`,
        hint: undefined,
      },
    ];
  }
  const message =
    got === undefined ? splitHint(issue.message).message : `expected ${expected.join(' or ')}, got ${got}`;
  return [{ path: clean(issue.path), code: 'VALUE', message, hint: undefined }];
}

function clean(path: readonly PropertyKey[]): (string | number)[] {
  return path.map((part) => (typeof part === 'symbol' ? String(part) : part));
}

/** Problems in the user's words, from the issues of a parse with the error map `explain`. */
export function problemsOf(issues: readonly z.core.$ZodIssue[]): Problem[] {
  return issues.flatMap((issue): Problem[] => {
    const path = clean(issue.path);
    if (issue.code === 'invalid_union') return explainUnion(issue);
    if (issue.code === 'unrecognized_keys') {
      return issue.message.split('\n').map((line, i) => ({
        path: [...path, issue.keys[i]!],
        code: 'UNKNOWN_KEY',
        ...splitHint(line),
      }));
    }
    const { message, hint } = splitHint(issue.message);
    const missing = issue.code === 'invalid_type' && message.endsWith(', got nothing');
    if (missing && path.length > 0) {
      const expected = message.slice('expected '.length, -', got nothing'.length);
      return [{ path, code: 'MISSING', message: `missing key "${path.at(-1)}": expected ${expected}`, hint }];
    }
    const code = issue.code === 'custom' && issue.params?.['problem'] === 'UNKNOWN_PLUGIN' ? 'UNKNOWN_PLUGIN' : 'VALUE';
    return [{ path, code, message, hint }];
  });
}

/** `stages[0].optimizer.rate`. */
export function showPath(path: readonly (string | number)[]): string {
  return path.map((part, i) => (typeof part === 'number' ? `[${part}]` : i === 0 ? part : `.${part}`)).join('');
}
