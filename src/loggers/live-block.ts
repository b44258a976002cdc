import type { Colors } from './colors.ts';
import type { Progress, StageProgress } from './progress.ts';
import {
  formatBytes,
  formatDuration,
  formatInteger,
  formatMetric,
  formatNumber,
  formatPercent,
  shortNames,
} from './quantities.ts';
import { clip, padTo, visibleWidth } from './text-table.ts';

const LABEL = 8;

/** A part of a line: its plain text decides where lines break, `paint` how it looks. */
interface Cell {
  readonly label: string;
  readonly value: string;
  readonly paint?: (text: string) => string;
}

/**
 * The block that is redrawn while a run goes on: run and stage, bar, losses, held-out metrics, resources. A pure function of the
 * progress, the width [columns] and the time [ms]; no line is wider than `width`.
 */
export function renderBlock(progress: Progress, look: { width: number; colors: Colors; now: number }): string {
  const { width, colors, now } = look;
  const { stage } = progress;
  if (stage === undefined) return colors.dim(clip('  preparing …', width));
  const lines = [title(progress, stage, look), bar(stage, look, progress.secondsLeftOfStage(now))];
  if (stage.recording) lines.push(colors.dim(clip(`  ${padTo('step', LABEL)}recording …`, width)));
  lines.push(...cells('loss', lossCells(stage, colors), width, colors));
  for (const [split, { epoch, metrics }] of Object.entries(stage.evaluations)) {
    const shown = Object.entries(metrics).map(([name, value]) => ({
      label: name,
      value: formatMetric(name, value),
      ...(name === 'top1' ? { paint: colors.green } : {}),
    }));
    const trend =
      stage.history.length > 1 ? [{ label: '', value: sparkline(stage.history.slice(-24)), paint: colors.cyan }] : [];
    lines.push(
      ...cells(
        split,
        [...shown, { label: 'epoch', value: String(Math.min(epoch + 1, stage.epochs)) }, ...trend],
        width,
        colors,
      ),
    );
  }
  lines.push(...cells('speed', resourceCells(stage, colors), width, colors));
  return lines.join('\n');
}

function title(
  progress: Progress,
  stage: StageProgress,
  { width, colors, now }: Parameters<typeof renderBlock>[1],
): string {
  const left = progress.secondsLeftOfRun(now);
  const elapsed = formatDuration((now - progress.startedAt) / 1000);
  const right = left === undefined ? elapsed : `${elapsed} · run ends in about ${formatDuration(left)}`;
  const place = progress.stages.length > 1 ? `stage ${stage.number} of ${progress.stages.length}` : 'stage';
  const name = clip(stage.name, Math.max(4, width - place.length - 6));
  const gap = width - 2 - place.length - 1 - visibleWidth(name) - visibleWidth(right);
  const head = `  ${colors.dim(place)} ${colors.bold(name)}`;
  return gap >= 2 ? `${head}${' '.repeat(gap)}${colors.dim(right)}` : head;
}

function bar(
  stage: StageProgress,
  { width, colors }: Parameters<typeof renderBlock>[1],
  left: number | undefined,
): string {
  const share = stage.updates === 0 ? 0 : Math.min(1, stage.update / stage.updates);
  const epoch = `epoch ${Math.min(stage.epoch + 1, stage.epochs)}/${stage.epochs}`;
  const steps = `${formatInteger(stage.update)}/${formatInteger(stage.updates)}`;
  const percent = padTo(`${Math.floor(share * 100)} %`, 5, 'right');
  const eta = left === undefined ? '' : `  ${formatDuration(left)} left`;
  // What does not fit is left out from the least important on; the bar itself last.
  const variants = [`${percent}  ${epoch}  ${steps}${eta}`, `${percent}  ${epoch}${eta}`, `${percent}${eta}`, percent];
  const text = variants.find((candidate) => visibleWidth(candidate) + 2 + 1 + 16 <= width) ?? percent;
  const size = Math.min(40, width - 3 - visibleWidth(text));
  if (size < 4) return `  ${clip(text.trim(), width - 2)}`;
  const halves = Math.round(share * size * 2);
  const full = Math.floor(halves / 2);
  const half = halves % 2 === 1 ? '╸' : '';
  const rest = size - full - half.length;
  return `  ${colors.cyan('━'.repeat(full) + half)}${colors.dim('─'.repeat(rest))} ${text}`;
}

function lossCells(stage: StageProgress, colors: Colors): Cell[] {
  const { total, ...terms } = stage.losses;
  const names = Object.keys(terms);
  const out: Cell[] = [];
  const paint = (value: number) => (Number.isFinite(value) ? {} : { paint: colors.red });
  if (total !== undefined) out.push({ label: '', value: formatNumber(total), ...paint(total) });
  // A single term of weight 1 is the total itself.
  if (names.length === 1 && terms[names[0]!] === total)
    return [{ ...out[0]!, label: shortNames(names).get(names[0]!)! }];
  const short = shortNames(names);
  return [
    ...out,
    ...names.map((name) => ({ label: short.get(name)!, value: formatNumber(terms[name]!), ...paint(terms[name]!) })),
  ];
}

function resourceCells(stage: StageProgress, colors: Colors): Cell[] {
  const out: Cell[] = [];
  if (stage.itemsPerSecond !== undefined)
    out.push({ label: '', value: `${formatInteger(stage.itemsPerSecond)} items/s` });
  if (stage.rate !== undefined) out.push({ label: 'rate', value: formatNumber(stage.rate, 3) });
  if (stage.update > 0) {
    const waits = stage.waiting > 0.2 ? { paint: colors.yellow } : {};
    out.push({ label: 'waiting for data', value: formatPercent(stage.waiting, 0), ...waits });
    out.push({ label: 'memory', value: formatBytes(stage.memoryBytes) });
  }
  if (stage.skipped > 0) out.push({ label: 'skipped', value: formatInteger(stage.skipped), paint: colors.yellow });
  return out;
}

/** Cells on as many lines as they need, below one label. */
function cells(label: string, list: readonly Cell[], width: number, colors: Colors): string[] {
  if (list.length === 0) return [];
  const room = Math.max(8, width - 2 - LABEL);
  const lines: string[] = [];
  let line = '';
  let used = 0;
  for (const { label: name, value, paint = (text: string) => text } of list) {
    const short = clip(value, room);
    const shownName = name === '' ? '' : clip(name, Math.max(0, room - visibleWidth(short) - 1));
    const size = visibleWidth(short) + (shownName === '' ? 0 : visibleWidth(shownName) + 1);
    if (used > 0 && used + 3 + size > room) {
      lines.push(line);
      line = '';
      used = 0;
    }
    const text = `${shownName === '' ? '' : `${colors.dim(shownName)} `}${paint(short)}`;
    line += used === 0 ? text : `   ${text}`;
    used += (used === 0 ? 0 : 3) + size;
  }
  lines.push(line);
  return lines.map((text, i) => `  ${colors.dim(padTo(i === 0 ? clip(label, LABEL - 1) : '', LABEL))}${text}`);
}

const BARS = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'] as const;

/** A curve of one text line; values that are not finite leave a gap. */
export function sparkline(values: readonly number[]): string {
  const finite = values.filter(Number.isFinite);
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  return values
    .map((value) => {
      if (!Number.isFinite(value)) return ' ';
      return BARS[high === low ? 3 : Math.round(((value - low) / (high - low)) * (BARS.length - 1))]!;
    })
    .join('');
}
