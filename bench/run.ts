// Measures a training step of alambic beside Keras and PyTorch: `npx tsx bench/run.ts --help`.
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Child, type Ready } from './child.ts';
import { describeMachine, waitForQuiet, watchUsage } from './machine.ts';
import type { Job } from './ours.ts';
import {
  type Measured,
  type Overhead,
  type Results,
  renderMarkdown,
  type WorkloadResult,
  workloadTable,
} from './report.ts';
import { CLASSES, CONTENDERS, type Contender, OPTIMIZER, WORKLOADS, type Workload } from './workloads.ts';

const HELP = `npx tsx bench/run.ts [options]

  --python PATH        Python with the packages of bench/requirements.txt (or ALAMBIC_BENCH_PYTHON; default python3)
  --workloads A,B      of ${WORKLOADS.map(({ name }) => name).join(', ')}, overhead (default all)
  --contenders A,B     of ${CONTENDERS.map(({ name }) => name).join(', ')} (default all)
  --rounds N           turns of each contender (default 10)
  --steps N            steps of a turn (default 2)
  --warmup N           steps before the first turn, besides the first step (default 2)
  --threads N          threads of every contender; 0 = its own default (default 0)
  --quiet LOAD         wait up to 5 minutes for a load average below this (default: do not wait)
  --noise SHARE        measure a turn again, up to 8 times, where other processes took more of the machine (default 1: never)
  --write              write docs/benchmarks.md and bench/results/<date>.json
`;

const { values: options } = parseArgs({
  options: {
    python: { type: 'string', default: process.env['ALAMBIC_BENCH_PYTHON'] ?? 'python3' },
    workloads: { type: 'string', default: [...WORKLOADS.map(({ name }) => name), 'overhead'].join(',') },
    contenders: { type: 'string', default: CONTENDERS.map(({ name }) => name).join(',') },
    rounds: { type: 'string', default: '10' },
    steps: { type: 'string', default: '2' },
    warmup: { type: 'string', default: '2' },
    threads: { type: 'string', default: '0' },
    quiet: { type: 'string' },
    noise: { type: 'string', default: '1' },
    write: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));
const say = (line = '') => process.stdout.write(`${line}\n`);

function fail(message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

function whole(name: 'rounds' | 'steps' | 'warmup' | 'threads', least: number): number {
  const value = Number(options[name]);
  if (!Number.isInteger(value) || value < least)
    fail(`--${name}: expected a whole number >= ${least}, got "${options[name]}"`);
  return value;
}

function positive(name: 'quiet' | 'noise', text: string): number {
  const value = Number(text);
  if (!(value > 0)) fail(`--${name}: expected a number > 0, got "${text}"`);
  return value;
}

function choose<T extends string>(name: string, given: string, known: readonly T[]): T[] {
  return given.split(',').map((item) => {
    const found = known.find((candidate) => candidate === item.trim());
    if (found === undefined) fail(`--${name}: there is no "${item}"; known are ${known.join(', ')}`);
    return found;
  });
}

function checkPython(python: string, contenders: readonly Contender[]): void {
  const needs = new Map([
    ['keras', ['keras', 'tensorflow', 'numpy']],
    ['pytorch', ['torch', 'torchvision']],
  ]);
  const modules = [...new Set(contenders.flatMap(({ family }) => needs.get(family) ?? []))];
  if (modules.length === 0) return;
  const code = `import importlib.util as u; print(*[m for m in ${JSON.stringify(modules)} if u.find_spec(m) is None])`;
  const found = spawnSync(python, ['-c', code], { encoding: 'utf8' });
  const hint =
    'Install the packages of bench/requirements.txt, and name that Python by --python or ALAMBIC_BENCH_PYTHON.\n' +
    'Ours alone is measured by --contenders graph,xla.';
  if (found.error !== undefined || found.status !== 0) fail(`"${python}" does not run as a Python 3\n${hint}`);
  const missing = found.stdout.trim();
  if (missing !== '') fail(`"${python}" lacks the packages: ${missing}\n${hint}`);
}

const environment: NodeJS.ProcessEnv = {
  ...process.env,
  TF_ENABLE_ONEDNN_OPTS: '1',
  TF_CPP_MIN_LOG_LEVEL: '3',
  CUDA_VISIBLE_DEVICES: '-1',
  KERAS_BACKEND: 'tensorflow',
};

const threads = whole('threads', 0);

function startOurs(job: Job): Child {
  const loader = ['--import', import.meta.resolve('tsx')];
  return new Child(process.execPath, [...loader, path('./ours.ts'), JSON.stringify(job)], {
    ...environment,
    TSX_TSCONFIG_PATH: path('../tsconfig.json'),
  });
}

function start(contender: Contender, workload: Workload): Child {
  if (contender.family === 'alambic') {
    const mode = contender.options['mode'] as 'graph' | 'xla';
    return startOurs({ kind: 'workload', mode, threads, ...workload });
  }
  const script = contender.family === 'keras' ? './peers/keras_peer.py' : './peers/torch_peer.py';
  const job = { ...workload, ...OPTIMIZER, ...contender.options, classes: CLASSES, threads };
  return new Child(options.python, ['-u', path(script), JSON.stringify(job)], environment);
}

interface Runner {
  readonly contender: Contender;
  readonly child: Child;
  readonly ready: Ready;
  readonly milliseconds: number[];
  readonly losses: number[];
  readonly noise: number[];
  readonly cpu: number[];
}

/** Turns of one contender that are measured again at most where the machine was not quiet. */
const MOST_REPEATS = 8;

async function takeTurn(runner: Runner, steps: number, mostNoise: number): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const { result, usage } = await watchUsage(runner.child.pid, () =>
      runner.child.request<{ milliseconds: number[]; losses: number[] }>({ command: 'run', steps }),
    );
    if (usage !== undefined && usage.noise > mostNoise && attempt < MOST_REPEATS) continue;
    runner.milliseconds.push(...result.milliseconds);
    runner.losses.push(...result.losses);
    if (usage !== undefined) {
      runner.noise.push(usage.noise);
      runner.cpu.push(usage.cpu / steps);
    }
    return;
  }
}

async function measure(workload: Workload, contenders: readonly Contender[]): Promise<WorkloadResult> {
  say(`\n${workload.title}`);
  const steps = whole('steps', 1);
  const mostNoise = positive('noise', options.noise);
  const runners: Runner[] = [];
  const failed: { contender: Contender; reason: string }[] = [];
  const children: Child[] = [];
  try {
    for (const contender of contenders) {
      const child = start(contender, workload);
      children.push(child);
      try {
        const ready = await child.receive<Ready>();
        const warmup = whole('warmup', 0);
        if (warmup > 0) await child.request({ command: 'run', steps: warmup });
        runners.push({ contender, child, ready, milliseconds: [], losses: [], noise: [], cpu: [] });
        say(`  ${contender.title}: ready, first step ${(ready.firstStep / 1000).toFixed(1)} s`);
      } catch (error) {
        const reason = (error as Error).message;
        failed.push({ contender, reason });
        say(`  ${contender.title} does not run: ${reason}`);
      }
    }
    const sizes = new Set(runners.map(({ ready }) => ready.parameters));
    if (sizes.size > 1) {
      const each = runners.map(({ contender, ready }) => `${contender.name} ${ready.parameters}`).join(', ');
      fail(`the contenders do not train the same network: ${each} parameters`);
    }
    for (let round = 0; round < whole('rounds', 1); round++) {
      // Each round begins with another contender, so that nobody always follows the same one.
      for (let i = 0; i < runners.length; i++) await takeTurn(runners[(round + i) % runners.length]!, steps, mostNoise);
    }
    const measured: Measured[] = [];
    for (const { child, contender, ready, milliseconds, losses, noise, cpu } of runners) {
      const { peakBytes } = await child.request<{ peakBytes: number }>({ command: 'stop' });
      if (!losses.every(Number.isFinite)) fail(`${contender.title}: the loss is not finite`);
      measured.push({ contender, ready, milliseconds, losses, noise, cpu, peakBytes });
    }
    const result = { workload, measured, failed };
    say(`\n${workloadTable(result)}`);
    return result;
  } finally {
    for (const child of children) child.kill();
  }
}

async function measureOverhead(): Promise<Overhead> {
  const child = startOurs({ kind: 'overhead', threads });
  try {
    const overhead = await child.receive<Overhead>();
    const { step, inside, leaves, recording } = overhead;
    say(
      `\nJavaScript overhead of a step of ${leaves} leaves: ${(step - inside).toFixed(2)} ms of ${step.toFixed(2)} ms`,
    );
    say(
      `Recording ResNet-50: ${recording.milliseconds.toFixed(0)} ms, ${recording.recordedOps} ops, ${recording.ops} run`,
    );
    return overhead;
  } finally {
    child.kill();
  }
}

async function main(): Promise<void> {
  if (options.help) {
    say(HELP);
    return;
  }
  const names = choose('workloads', options.workloads, [...WORKLOADS.map(({ name }) => name), 'overhead']);
  const chosen = choose(
    'contenders',
    options.contenders,
    CONTENDERS.map(({ name }) => name),
  );
  const contenders = CONTENDERS.filter(({ name }) => chosen.includes(name));
  if (names.some((name) => name !== 'overhead')) checkPython(options.python, contenders);
  const loadBefore = await waitForQuiet(
    options.quiet === undefined ? Number.POSITIVE_INFINITY : positive('quiet', options.quiet),
    300,
  );
  const machine = describeMachine();
  say(`${machine.cpu}, ${machine.cores} cores, load ${loadBefore.toFixed(2)}`);

  const workloads: WorkloadResult[] = [];
  for (const workload of WORKLOADS.filter(({ name }) => names.includes(name))) {
    workloads.push(await measure(workload, contenders));
  }
  const overhead = names.includes('overhead') ? await measureOverhead() : undefined;
  if (!options.write) return;

  const shown = process.argv
    .slice(2)
    .filter((argument, i, all) => !/^--python/.test(argument) && all[i - 1] !== '--python');
  const results: Results = {
    date: new Date().toISOString().slice(0, 10),
    machine,
    command: ['npx tsx bench/run.ts', ...shown].join(' '),
    loadBefore,
    rounds: whole('rounds', 1),
    stepsPerRound: whole('steps', 1),
    versions: Object.assign({}, ...workloads.flatMap(({ measured }) => measured.map(({ ready }) => ready.versions))),
    workloads,
    overhead,
  };
  mkdirSync(path('./results'), { recursive: true });
  mkdirSync(path('../docs'), { recursive: true });
  writeFileSync(path(`./results/${results.date}.json`), `${JSON.stringify(results, null, 1)}\n`);
  writeFileSync(path('../docs/benchmarks.md'), renderMarkdown(results));
  say(`\nwritten: docs/benchmarks.md, bench/results/${results.date}.json`);
}

await main();
