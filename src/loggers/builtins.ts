import csv from './csv.ts';
import jsonl from './jsonl.ts';

/** Built-in plugins of the kind `logger`. */
export const LOGGER_PLUGINS = [jsonl, csv] as const;
