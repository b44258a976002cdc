/** A training step that is measured: the same network, batch and optimizer for all contenders. */
export interface Workload {
  readonly name: string;
  readonly title: string;
  /** `resnet18-cifar`, `mobilenetv2` or `resnet<depth>`. */
  readonly student: string;
  readonly teacher?: string;
  readonly temperature?: number;
  readonly batch: number;
  /** [H, W, C]. */
  readonly inputSize: readonly [number, number, number];
}

export const CLASSES = 10;

/** SGD of every workload. Decay applies to all parameters, since the peers' plain optimizers know no roles. */
export const OPTIMIZER = { rate: 0.01, momentum: 0.9, decay: 5e-4 } as const;

export const WORKLOADS: readonly Workload[] = [
  {
    name: 'resnet18',
    title: 'ResNet-18 with CIFAR stem, batch 64, 32x32x3',
    student: 'resnet18-cifar',
    batch: 64,
    inputSize: [32, 32, 3],
  },
  {
    name: 'mobilenetv2',
    title: 'MobileNetV2 1.0, batch 32, 96x96x3',
    student: 'mobilenetv2',
    batch: 32,
    inputSize: [96, 96, 3],
  },
  {
    name: 'distillation',
    title: 'Distillation ResNet-56 → ResNet-20 (CE + KL·T², T = 4), batch 64, 32x32x3',
    student: 'resnet20',
    teacher: 'resnet56',
    temperature: 4,
    batch: 64,
    inputSize: [32, 32, 3],
  },
];

/** Who is measured. `options` go to the contender's process as they are. */
export interface Contender {
  readonly name: string;
  readonly title: string;
  readonly family: 'alambic' | 'keras' | 'pytorch';
  readonly options: Readonly<Record<string, boolean | string>>;
}

const torch = { compile: false, channelsLast: false, fused: true };

export const CONTENDERS: readonly Contender[] = [
  { name: 'graph', title: 'alambic graph', family: 'alambic', options: { mode: 'graph' } },
  { name: 'xla', title: 'alambic xla', family: 'alambic', options: { mode: 'xla' } },
  { name: 'keras', title: 'Keras, jit_compile=False', family: 'keras', options: { jit: false } },
  { name: 'keras-jit', title: 'Keras, jit_compile=True', family: 'keras', options: { jit: true } },
  { name: 'torch', title: 'PyTorch eager', family: 'pytorch', options: torch },
  {
    name: 'torch-last',
    title: 'PyTorch eager, channels_last',
    family: 'pytorch',
    options: { ...torch, channelsLast: true },
  },
  { name: 'torch-compile', title: 'PyTorch torch.compile', family: 'pytorch', options: { ...torch, compile: true } },
  {
    name: 'torch-compile-last',
    title: 'PyTorch torch.compile, channels_last',
    family: 'pytorch',
    options: { ...torch, compile: true, channelsLast: true },
  },
];
