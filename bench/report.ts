import type { Ready } from './child.ts';
import type { Machine } from './machine.ts';
import type { Contender, Workload } from './workloads.ts';

export interface Measured {
  readonly contender: Contender;
  readonly ready: Ready;
  /** Milliseconds of each step. */
  readonly milliseconds: readonly number[];
  readonly losses: readonly number[];
  /** Share of the machine that other processes took in each turn. */
  readonly noise: readonly number[];
  /** CPU milliseconds of a step, all threads, mean of each turn. */
  readonly cpu: readonly number[];
  readonly peakBytes: number;
}

export interface WorkloadResult {
  readonly workload: Workload;
  readonly measured: readonly Measured[];
  /** Contenders that could not run, and why. */
  readonly failed: readonly { readonly contender: Contender; readonly reason: string }[];
}

export interface Overhead {
  readonly leaves: number;
  /** Milliseconds of a step of that many leaves, and of TFE_Execute within it. */
  readonly step: number;
  readonly inside: number;
  /** Of a ResNet-50's forward, backward and SGD. */
  readonly recording: { readonly recordedOps: number; readonly ops: number; readonly milliseconds: number };
}

export interface Results {
  readonly date: string;
  readonly machine: Machine;
  readonly command: string;
  readonly loadBefore: number;
  readonly rounds: number;
  readonly stepsPerRound: number;
  readonly versions: Readonly<Record<string, string>>;
  readonly workloads: readonly WorkloadResult[];
  readonly overhead: Overhead | undefined;
}

/** Order statistics of the step times. */
export interface Summary {
  readonly min: number;
  readonly median: number;
  /** Interquartile range as a share of the median. */
  readonly spread: number;
}

function quantile(sorted: readonly number[], share: number): number {
  const at = share * (sorted.length - 1);
  const low = Math.floor(at);
  const high = Math.min(low + 1, sorted.length - 1);
  return sorted[low]! + (sorted[high]! - sorted[low]!) * (at - low);
}

export function summarise(milliseconds: readonly number[]): Summary {
  const sorted = [...milliseconds].sort((a, b) => a - b);
  const median = quantile(sorted, 0.5);
  return { min: sorted[0]!, median, spread: (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / median };
}

/** The smallest minimum and the smallest median of a family: possibly of two modes. */
export function fastest(
  measured: readonly Measured[],
  family: Contender['family'],
): { min: number; median: number } | undefined {
  const times = measured
    .filter(({ contender }) => contender.family === family)
    .map((one) => summarise(one.milliseconds));
  if (times.length === 0) return undefined;
  return { min: Math.min(...times.map(({ min }) => min)), median: Math.min(...times.map(({ median }) => median)) };
}

const fixed = (value: number, digits = 0) => value.toFixed(digits);
const percent = (share: number) => `${fixed(share * 100)} %`;

function ratio(own: Summary, other: { min: number; median: number } | undefined): string {
  return other === undefined ? '–' : `${fixed(own.min / other.min, 2)} / ${fixed(own.median / other.median, 2)}`;
}

function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(header), line(header.map((_, i) => (i === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n');
}

export function workloadTable({ workload, measured }: WorkloadResult): string {
  const keras = fastest(measured, 'keras');
  const pytorch = fastest(measured, 'pytorch');
  const rows = measured.map(({ contender, ready, milliseconds, noise, cpu, peakBytes }) => {
    const times = summarise(milliseconds);
    const foreign = noise.length === 0 ? '–' : percent(noise.reduce((a, b) => a + b, 0) / noise.length);
    return [
      contender.title,
      fixed(times.min, times.min < 100 ? 1 : 0),
      fixed(times.median, times.median < 100 ? 1 : 0),
      percent(times.spread),
      cpu.length === 0 ? '–' : fixed(summarise(cpu).median),
      fixed((workload.batch / times.median) * 1000, 1),
      ratio(times, keras),
      ratio(times, pytorch),
      fixed(peakBytes / 2 ** 20),
      fixed(ready.firstStep / 1000, 1),
      foreign,
    ];
  });
  return table(
    [
      'contender',
      'min ms',
      'median ms',
      'spread',
      'CPU ms',
      'images/s',
      '÷ best Keras',
      '÷ best PyTorch',
      'peak MiB',
      'first step s',
      'others',
    ],
    rows,
  );
}

function overheadTable({ leaves, step, inside, recording }: Overhead): string {
  return table(
    ['measure', 'value'],
    [
      [`a recorded step of ${leaves} leaves, whole`, `${fixed(step, 2)} ms`],
      ['of it inside TFE_Execute', `${fixed(inside, 2)} ms`],
      ['**JavaScript overhead of a recorded step**', `**${fixed(step - inside, 2)} ms**`],
      [
        `recording ResNet-50, forward + backward + SGD (${recording.recordedOps} ops recorded, ${recording.ops} run)`,
        `${fixed(recording.milliseconds)} ms`,
      ],
    ],
  );
}

/** The page docs/benchmarks.md. */
export function renderMarkdown(results: Results): string {
  const { machine, versions } = results;
  const recordings = results.workloads.flatMap(({ workload, measured }) =>
    measured
      .filter(({ ready }) => ready.recording !== undefined)
      .map(({ contender, ready }) => [
        `${workload.name}, ${contender.title}`,
        `${fixed(ready.recording!)} ms`,
        String(ready.ops),
        `${fixed(ready.firstStep)} ms`,
      ]),
  );
  return [
    '# Benchmarks',
    '',
    '<!-- Generated by bench/run.ts --write. -->',
    '',
    'Milliseconds of a whole training step (forward, loss, backward, SGD with momentum and decay, reading the loss back) over a fixed synthetic',
    'batch, side by side in one run on the CPU. Every contender is a process of its own that stays alive; they take turns, so that noise of the',
    'machine hits all alike. oneDNN is on in TensorFlow for ours and for Keras.',
    '',
    `- **Command:** \`${results.command}\``,
    `- **Date:** ${results.date}`,
    `- **Machine:** ${machine.cpu}, ${machine.cores} cores${machine.vectors === '' ? '' : ` (${machine.vectors})`}, ${machine.memoryGiB} GiB, ${machine.system}; load before the run ${fixed(results.loadBefore, 2)}`,
    `- **Versions:** ${Object.entries(versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(', ')}`,
    `- **Rounds:** ${results.rounds} of ${results.stepsPerRound} step(s) each, after warm-up`,
    '',
    'Ratios are minimum / median against the smallest minimum and median of any mode of that framework: below 1 is faster than the peer.',
    'Spread is the interquartile range over the median; CPU is the median CPU time of a step over all threads. Peak is the peak resident memory of the process. First step holds recording or tracing and',
    'compiling. Others is the share of the machine that other processes took meanwhile.',
    '',
    'Ours starts from uint8 images and normalises them in the step, and takes the global norm and the finiteness of all gradients: the peers do neither.',
    'Decay applies to all parameters everywhere. PyTorch uses its fused SGD.',
    ...results.workloads.flatMap((result) => [
      '',
      `## ${result.workload.title}`,
      '',
      workloadTable(result),
      ...result.failed.flatMap(({ contender, reason }) => [
        '',
        `${contender.title} did not run: ${reason.split('\n')[0]}`,
      ]),
    ]),
    ...(recordings.length === 0
      ? []
      : ['', '## Recording', '', table(['workload', 'record', 'ops', 'record + compile + first step'], recordings)]),
    ...(results.overhead === undefined ? [] : ['', '## On the JavaScript side', '', overheadTable(results.overhead)]),
    '',
    '## Run it',
    '',
    'Install the packages of `bench/requirements.txt` into a Python of your own (CPU builds are enough) and name it by `--python` or',
    '`ALAMBIC_BENCH_PYTHON`; `--workloads`, `--contenders`, `--rounds` choose less. Without Python, `--contenders graph,xla` measures ours alone.',
    '',
  ].join('\n');
}
