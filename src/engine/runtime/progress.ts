import type { Progress } from './download.ts';

/** Bytes for people: `274 MB`, `2.9 GB`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1e6) return `${Math.ceil(bytes / 1e3)} kB`;
  if (bytes < 1e9) return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
  return `${(bytes / 1e9).toFixed(2)} GB`;
}

/** Says the progress of downloads in lines: one per 10 % of each file. */
export function progressLines(say: (line: string) => void): (progress: Progress) => void {
  const last = new Map<string, number>();
  return ({ file, received, total }) => {
    const tenth = Math.floor((received / total) * 10);
    if (tenth <= (last.get(file) ?? 0)) return;
    last.set(file, tenth);
    say(`  ${file.split('-').slice(0, 2).join(' ')}: ${tenth * 10} % of ${formatBytes(total)}`);
  };
}
