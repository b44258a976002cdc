/** How numbers are written for people: on the terminal and in the report, always in the same way. */

// A no-break space: numbers neither wrap on a page nor lose their gap on a terminal.
const GAP = '\u00a0';

/** `1234567` -> `1 234 567`, with no-break spaces. */
export function formatInteger(value: number): string {
  const digits = Math.abs(Math.round(value)).toString();
  const sign = Math.round(value) < 0 ? '-' : '';
  return sign + digits.replace(/\B(?=(\d{3})+$)/g, GAP);
}

/** `272474` -> `272 k`, `11181642` -> `11.2 M`: three digits that count. */
export function formatCount(value: number): string {
  return scaled(value, 1000, ['', 'k', 'M', 'G', 'T']);
}

/** `1100000` -> `1.10 MB` (decimal units, as file managers show them). */
export function formatBytes(bytes: number): string {
  return scaled(bytes, 1000, ['B', 'kB', 'MB', 'GB', 'TB']);
}

function scaled(value: number, base: number, units: readonly string[]): string {
  if (!Number.isFinite(value)) return formatNumber(value);
  let unit = 0;
  let size = Math.abs(value);
  while (unit < units.length - 1 && Number(size.toPrecision(3)) >= base) {
    size /= base;
    unit++;
  }
  const digits = unit === 0 && Number.isInteger(size) ? String(size) : fixedPrecision(size, 3);
  return `${value < 0 ? '-' : ''}${digits}${units[unit] === '' ? '' : ` ${units[unit]}`}`;
}

/** At least `digits` significant digits without an exponent; more before the point where the number is larger. */
function fixedPrecision(value: number, digits: number): string {
  if (value === 0) return '0';
  const magnitude = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(digits)))));
  return value.toFixed(Math.max(0, digits - 1 - magnitude));
}

/** A loss, a rate, a metric of unknown scale: `significant` digits, an exponent below 1e-4 and from 1e6 on. */
export function formatNumber(value: number, significant = 4): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '-∞';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e6) return value.toExponential(Math.max(0, significant - 2)).replace('e+', 'e');
  return fixedPrecision(value, significant);
}

/** A number that somebody set, such as a rate: as short as it goes, `0.05`, `5e-7`. */
export function formatSetting(value: number): string {
  return Number.isFinite(value) ? String(Number(value.toPrecision(4))) : formatNumber(value);
}

/** `0.9134` -> `91.3 %`. */
export function formatPercent(share: number, decimals = 1): string {
  return Number.isFinite(share) ? `${(share * 100).toFixed(decimals)} %` : formatNumber(share);
}

/** Signed difference of two shares in percentage points: `+4.2`. */
export function formatPoints(difference: number): string {
  const text = (difference * 100).toFixed(1);
  return Number(text) > 0 ? `+${text}` : Number(text) === 0 ? '0.0' : text.replace('-', '−');
}

/** `75` -> `1m 15s`; two units at most. */
export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds)) return '–';
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)}s`;
  const s = Math.round(seconds);
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${pad(s % 60)}s`;
  if (s < 86_400) return `${Math.floor(s / 3600)}h ${pad(Math.floor((s % 3600) / 60))}m`;
  return `${Math.floor(s / 86_400)}d ${pad(Math.floor((s % 86_400) / 3600))}h`;
}

const pad = (value: number) => String(value).padStart(2, '0');

const SHARES = /^(top\d+|accuracy|balanced|precision|recall|f1|ece|agreement)$/;

/** Whether a metric of that name is a share of 1, shown in percent. */
export function isShare(name: string): boolean {
  return SHARES.test(name.slice(name.lastIndexOf('/') + 1));
}

/** A metric in the unit that its name implies: `top1` in percent, `loss` as a number. */
export function formatMetric(name: string, value: number): string {
  return isShare(name) ? formatPercent(value) : formatNumber(value);
}

/** Names without what stands before the last slash, where the rest alone tells them apart: `supervised/ce` -> `ce`. */
export function shortNames(names: readonly string[]): ReadonlyMap<string, string> {
  const last = (name: string) => name.slice(name.lastIndexOf('/') + 1);
  const counts = new Map<string, number>();
  for (const name of names) counts.set(last(name), (counts.get(last(name)) ?? 0) + 1);
  return new Map(names.map((name) => [name, counts.get(last(name)) === 1 ? last(name) : name.replaceAll('/', ' ')]));
}
