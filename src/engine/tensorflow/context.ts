import { AlambicError } from '../../errors.ts';
import type { Library, Pointer } from './library.ts';
import { Status } from './status.ts';

export interface ContextOptions {
  /** `auto` takes the first GPU where there is one. */
  readonly device: string;
  /** Threads within one op; 0 = all cores. */
  readonly intraThreads: number;
  /** Ops at the same time; 0 = all cores. */
  readonly interThreads: number;
}

export interface Device {
  readonly type: string;
  readonly name: string;
}

/** Encodes the few fields of ConfigProto that are used (numbers of config.proto of TensorFlow 2.21). */
export function encodeConfig(options: ContextOptions): Uint8Array {
  const varint = (n: number): number[] => {
    const out: number[] = [];
    let rest = n;
    while (rest > 127) {
      out.push((rest % 128) | 128);
      rest = Math.floor(rest / 128);
    }
    out.push(rest);
    return out;
  };
  const int = (field: number, n: number) => [...varint(field * 8), ...varint(n)];
  const message = (field: number, bytes: readonly number[]) => [
    ...varint(field * 8 + 2),
    ...varint(bytes.length),
    ...bytes,
  ];
  const config: number[] = [];
  if (options.device === 'cpu') {
    // device_count { key: "GPU" value: 0 }
    config.push(...message(1, [...message(1, [...Buffer.from('GPU')]), ...int(2, 0)]));
  }
  if (options.intraThreads > 0) config.push(...int(2, options.intraThreads));
  if (options.interThreads > 0) config.push(...int(5, options.interThreads));
  // gpu_options { allow_growth: true }: taking all memory at once is the peers' most hated habit (tfjs#671).
  config.push(...message(6, int(4, 1)));
  return Uint8Array.from(config);
}

/** An eager context of TensorFlow and the devices it sees. */
export function openContext(
  c: Library,
  options: ContextOptions,
): { context: Pointer; devices: Device[]; device: Device } {
  const status = new Status(c);
  try {
    const made = c.newContextOptions();
    const config = encodeConfig(options);
    c.setConfig(made, config, config.length, status.pointer);
    status.check('context options');
    const context = c.newContext(made, status.pointer);
    status.check('context');
    c.deleteContextOptions(made);
    const list = c.listDevices(context, status.pointer);
    status.check('devices');
    const devices = Array.from({ length: c.deviceCount(list) }, (_, i) => ({
      type: c.deviceType(list, i, status.pointer) as string,
      name: c.deviceName(list, i, status.pointer) as string,
    }));
    c.deleteDeviceList(list);
    return { context, devices, device: chooseDevice(options.device, devices) };
  } finally {
    status.delete();
  }
}

function chooseDevice(wanted: string, devices: readonly Device[]): Device {
  const cpu = devices.find((device) => device.type === 'CPU');
  const gpus = devices.filter((device) => device.type === 'GPU');
  if (wanted === 'auto') return gpus[0] ?? cpu!;
  if (wanted === 'cpu') return cpu!;
  const number = /^gpu:(\d+)$/.exec(wanted)?.[1];
  if (number === undefined) {
    throw new AlambicError('DEVICE_UNKNOWN', `expected a device auto, cpu or gpu:N, got "${wanted}"`);
  }
  const gpu = gpus.find((device) => device.name.endsWith(`GPU:${number}`));
  if (gpu === undefined) {
    throw new AlambicError('DEVICE_MISSING', `TensorFlow sees no ${wanted}; it sees ${gpus.length} GPU(s)`, {
      hint: 'Install the CUDA libraries with `alambic runtime install --gpu`, check the driver with `alambic runtime info`, or use device: auto.',
    });
  }
  return gpu;
}
