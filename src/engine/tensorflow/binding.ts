import { AlambicError } from '../../errors.ts';
import { type AttributeSetters, setAttribute } from '../program/attributes.ts';
import { allocateTensor } from '../program/graph-builder.ts';
import type { LoweredFunction } from '../program/lower.ts';
import { ATTR, type Attr, opOfNode, type Program, type Value } from '../program/program.ts';
import type { Recorder } from '../program/recorder.ts';
import type { Device } from './context.ts';
import { bytesPerElement, DTYPE, dtypeName } from './dtypes.ts';
import { type Library, type Pointer, viewMemory } from './library.ts';
import type { OpDef } from './op-defs.ts';
import { captureOrigin, Status, tensorflowError, userLine } from './status.ts';

/** Shape, dtype and id of a tensor, as tfjs's backend wants them. */
export interface TensorMetadata {
  id: number;
  shape: number[];
  dtype: number;
}

type HostValues = Float32Array | Int32Array | Uint8Array | BigInt64Array | Uint8Array[];

/** A tensor that exists. */
interface EagerEntry {
  readonly kind: 'eager';
  readonly handle: Pointer;
  readonly dtype: number;
  readonly shape: readonly number[];
  /** Owners: tfjs holds one, each program that captured the tensor another. */
  owners: number;
}
/** A tensor of a recording: has no value. */
interface SymbolEntry {
  readonly kind: 'symbol';
  readonly recorder: Recorder;
  readonly value: Value;
}
/** Values made in JavaScript during a recording: a constant of the program once an op reads them. */
interface HostEntry {
  readonly kind: 'host';
  readonly recorder: Recorder;
  readonly dtype: number;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
  value: Value | undefined;
}
type Entry = EagerEntry | SymbolEntry | HostEntry;

/** A recording in progress and the outside tensors it reads. */
interface Recording {
  readonly recorder: Recorder;
  readonly captured: Map<number, Value>;
}

function asBytes(values: Exclude<HostValues, Uint8Array[]>): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

/** Values in the element type of `dtype`; tfjs hands over plain arrays here and there. */
function coerce(dtype: number, values: ArrayLike<number> | HostValues): Exclude<HostValues, Uint8Array[]> {
  if (dtype === DTYPE.float32 && !(values instanceof Float32Array)) return Float32Array.from(values as number[]);
  if (dtype === DTYPE.int32 && !(values instanceof Int32Array)) return Int32Array.from(values as number[]);
  if ((dtype === DTYPE.bool || dtype === DTYPE.uint8) && !(values instanceof Uint8Array)) {
    return Uint8Array.from(values as unknown as number[]);
  }
  return values as Exclude<HostValues, Uint8Array[]>;
}

/**
 * The binding that tfjs's TensorFlow kernels run on, over TensorFlow's C API: the `TFJSBinding` interface of tfjs-node, eager or
 * recording. It is the only place that holds tensor handles.
 */
export class TensorflowBinding {
  readonly TF_FLOAT = DTYPE.float32;
  readonly TF_INT32 = DTYPE.int32;
  readonly TF_INT64 = DTYPE.int64;
  readonly TF_BOOL = DTYPE.bool;
  readonly TF_COMPLEX64 = DTYPE.complex64;
  readonly TF_STRING = DTYPE.string;
  readonly TF_RESOURCE = DTYPE.resource;
  readonly TF_UINT8 = DTYPE.uint8;
  readonly TF_ATTR_STRING = ATTR.string;
  readonly TF_ATTR_INT = ATTR.int;
  readonly TF_ATTR_FLOAT = ATTR.float;
  readonly TF_ATTR_BOOL = ATTR.bool;
  readonly TF_ATTR_TYPE = ATTR.type;
  readonly TF_ATTR_SHAPE = ATTR.shape;
  readonly TF_ATTR_RESOURCE = 99;
  readonly TF_Version: string;

  readonly #c: Library;
  readonly #context: Pointer;
  readonly #device: Device;
  readonly #defs: ReadonlyMap<string, OpDef>;
  readonly #status: Status;
  readonly #entries = new Map<number, Entry>();
  #next = 0;
  #recording: Recording | undefined;

  constructor(c: Library, context: Pointer, device: Device, defs: ReadonlyMap<string, OpDef>) {
    this.#c = c;
    this.#context = context;
    this.#device = device;
    this.#defs = defs;
    this.#status = new Status(c);
    this.TF_Version = c.version() as string;
  }

  get library(): Library {
    return this.#c;
  }

  get opDefs(): ReadonlyMap<string, OpDef> {
    return this.#defs;
  }

  get recording(): boolean {
    return this.#recording !== undefined;
  }

  isUsingGpuDevice(): boolean {
    return this.#device.type === 'GPU';
  }

  /** Tensors that exist, recorded ones not counted. */
  getNumOfTensors(): number {
    let eager = 0;
    for (const entry of this.#entries.values()) if (entry.kind === 'eager') eager++;
    return eager;
  }

  createTensor(shape: number[], dtype: number, values: HostValues | number[]): number {
    if (bytesPerElement(dtype) === undefined) {
      throw new AlambicError('ENGINE_DTYPE', `tensors of ${dtypeName(dtype)} are not supported`);
    }
    const bytes = asBytes(coerce(dtype, values as HostValues));
    if (this.#recording !== undefined) {
      const { recorder } = this.#recording;
      return this.#put({ kind: 'host', recorder, dtype, shape: [...shape], bytes: bytes.slice(), value: undefined });
    }
    return this.#put(this.#upload(dtype, [...shape], bytes));
  }

  /** Frees a tensor, or gives up one of its owners. A tensor of a recording that is over is gone already. */
  deleteTensor(id: number): void {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    if (entry.kind !== 'eager') {
      this.#entries.delete(id);
      return;
    }
    entry.owners--;
    if (entry.owners === 0) {
      this.#c.deleteHandle(entry.handle);
      this.#entries.delete(id);
    }
  }

  /** One more owner of a tensor that exists: it lives until each has deleted it. */
  share(id: number): TensorMetadata {
    const entry = this.#entry(id) as EagerEntry;
    entry.owners++;
    return { id, shape: [...entry.shape], dtype: entry.dtype };
  }

  tensorDataSync(id: number): HostValues {
    const entry = this.#entry(id);
    if (entry.kind === 'host') return this.#decode(entry.dtype, entry.bytes.slice());
    if (entry.kind === 'symbol') {
      const at = userLine(captureOrigin(this.tensorDataSync));
      throw new AlambicError(
        'READ_WHILE_RECORDING',
        `the value of a tensor was read inside the recorded function "${entry.recorder.name}"`,
        {
          ...(at === undefined ? {} : { at }),
          hint: 'A recorded function has no values yet: compute with tensor ops, and return what you want to read. `--engine eager` runs it op by op.',
        },
      );
    }
    const tensor = this.#c.resolveHandle(entry.handle, this.#status.pointer);
    this.#status.check('read');
    const length = Number(this.#c.tensorBytes(tensor));
    const bytes = length === 0 ? new Uint8Array() : viewMemory(this.#c.tensorData(tensor), length).slice();
    this.#c.deleteTensor(tensor);
    return this.#decode(entry.dtype, bytes);
  }

  executeOp(type: string, attrs: readonly Attr[], inputs: readonly number[], outputs: number): TensorMetadata[] {
    if (this.#recording !== undefined) {
      const values = inputs.map((id) => this.#symbolOf(id));
      return this.#recording.recorder.addOp(type, attrs, values, outputs).map((value) => this.#describe(value));
    }
    const c = this.#c;
    const status = this.#status;
    const fail = () => captureOrigin(this.executeOp);
    const op = c.newOp(this.#context, type, status.pointer);
    status.check(type, fail);
    try {
      if (this.isUsingGpuDevice()) c.setOpDevice(op, this.#device.name, status.pointer);
      for (const id of inputs) {
        const entry = this.#entry(id);
        if (entry.kind !== 'eager') {
          throw new AlambicError(
            'STALE_SYMBOL',
            `op ${type} reads a tensor of the recording "${entry.recorder.name}", which is over`,
            {
              hint: 'Return from the recorded function what you need outside of it; do not keep its tensors in variables.',
            },
          );
        }
        c.addOpInput(op, entry.handle, status.pointer);
        status.check(type, fail);
      }
      const setters = this.#settersOf(op);
      for (const attr of attrs) setAttribute(setters, attr);
      return this.#execute(op, type, outputs);
    } finally {
      c.deleteOp(op);
    }
  }

  // ------------------------------------------------------------------------------------------------------------ recording

  /** Starts a recording; ops that follow are added to it instead of run. */
  startRecording(recorder: Recorder): void {
    if (this.#recording !== undefined) {
      throw new AlambicError(
        'RECORDING_NESTED',
        `"${recorder.name}" was called while "${this.#recording.recorder.name}" is being recorded`,
        {
          hint: 'Call the plain function instead of the captured one.',
        },
      );
    }
    this.#recording = { recorder, captured: new Map() };
  }

  /** Ends the recording and frees its tensors; gives the outside tensors it read, now owned by the caller (`release` them). */
  endRecording(): { captured: ReadonlyMap<number, Value> } {
    const recording = this.#recording;
    if (recording === undefined) throw new AlambicError('ENGINE_STATE', 'no recording is in progress');
    this.#recording = undefined;
    for (const id of recording.captured.keys()) (this.#entries.get(id) as EagerEntry).owners++;
    for (const [id, entry] of this.#entries) {
      if (entry.kind === 'eager' || entry.recorder !== recording.recorder) continue;
      // A tensor made from JavaScript values that is still alive lives on outside (tfjs uploads values only at their first use).
      if (entry.kind === 'host') this.#entries.set(id, this.#upload(entry.dtype, entry.shape, entry.bytes));
      else this.#entries.delete(id);
    }
    return { captured: recording.captured };
  }

  /** A tensor that stands for a value of the recording in progress. */
  symbol(value: Value): TensorMetadata {
    return this.#describe(value);
  }

  /** A new argument of the function being recorded. */
  addPlaceholder(dtype: number, shape: readonly number[]): TensorMetadata {
    if (this.#recording === undefined)
      throw new AlambicError('ENGINE_STATE', 'a placeholder exists only inside a dry run');
    return this.#describe(this.#recording.recorder.addInput(dtype, shape));
  }

  /** The recording's value behind a tensor id; constants are added as needed. */
  valueOf(id: number): Value {
    return this.#symbolOf(id);
  }

  // ------------------------------------------------------------------------------------------------------------ functions

  addFunction(fn: LoweredFunction): void {
    this.#c.addFunction(this.#context, fn.handle, this.#status.pointer);
    this.#c.deleteFunction(fn.handle);
    this.#status.check('add function');
  }

  removeFunction(name: string): void {
    this.#c.removeFunction(this.#context, name, this.#status.pointer);
    this.#status.check('remove function');
  }

  /**
   * Runs a lowered program on a worker thread. `ids` are its inputs' tensors; the results belong to the caller.
   */
  async runFunction(
    fn: LoweredFunction,
    program: Program,
    ids: readonly number[],
    xla: boolean,
  ): Promise<TensorMetadata[]> {
    const c = this.#c;
    const status = new Status(c);
    const op = c.newOp(this.#context, fn.name, status.pointer);
    try {
      status.check(program.name);
      if (this.isUsingGpuDevice()) c.setOpDevice(op, this.#device.name, status.pointer);
      for (const id of ids) {
        const entry = this.#entry(id);
        if (entry.kind !== 'eager')
          throw new AlambicError('ENGINE_STATE', `"${program.name}" was called with a recorded tensor`);
        c.addOpInput(op, entry.handle, status.pointer);
      }
      status.check(program.name);
      if (xla) c.setOpBool(op, '_XlaMustCompile', 1);
      const handles: Pointer[] = new Array(program.outputs.length).fill(null);
      const count = [program.outputs.length];
      await new Promise<void>((resolve, reject) => {
        c.execute.async(op, handles, count, status.pointer, (error: unknown) => (error ? reject(error) : resolve()));
      });
      if (status.failed) {
        const culprit = opOfNode(program, status.message);
        throw tensorflowError(status.code, status.message, culprit?.type ?? program.name, culprit?.origin);
      }
      return program.outputs.map((value, i) => this.#adopt(handles[i], value));
    } finally {
      c.deleteOp(op);
      status.delete();
    }
  }

  // -------------------------------------------------------------------------------------------------- saved models: not here

  loadSavedModel(): number {
    throw new AlambicError('ENGINE_SAVED_MODEL', 'saved models are not run by this binding', {
      hint: 'Load the weights into a backbone of the zoo instead.',
    });
  }

  deleteSavedModel(): void {
    this.loadSavedModel();
  }

  runSavedModel(): TensorMetadata[] {
    this.loadSavedModel();
    return [];
  }

  getNumOfSavedModels(): number {
    return 0;
  }

  // --------------------------------------------------------------------------------------------------------------- private

  #upload(dtype: number, shape: readonly number[], bytes: Uint8Array): EagerEntry {
    const tensor = allocateTensor(this.#c, dtype, shape, bytes);
    let handle = this.#c.newHandle(tensor, this.#status.pointer);
    this.#c.deleteTensor(tensor);
    this.#status.check('tensor');
    // TensorFlow wants int32 in host memory even where everything else is on the GPU.
    if (this.isUsingGpuDevice() && dtype !== DTYPE.int32) {
      const moved = this.#c.copyToDevice(handle, this.#context, this.#device.name, this.#status.pointer);
      this.#c.deleteHandle(handle);
      this.#status.check('copy to device');
      handle = moved;
    }
    return { kind: 'eager', handle, dtype, shape, owners: 1 };
  }

  #put(entry: Entry): number {
    const id = this.#next++;
    this.#entries.set(id, entry);
    return id;
  }

  #entry(id: number): Entry {
    const entry = this.#entries.get(id);
    if (entry === undefined) {
      throw new AlambicError('TENSOR_DISPOSED', `tensor ${id} does not exist any more`, {
        hint: 'It was disposed, or it belonged to a recording that is over.',
      });
    }
    return entry;
  }

  #symbolOf(id: number): Value {
    const recording = this.#recording!;
    const entry = this.#entry(id);
    switch (entry.kind) {
      case 'symbol':
        if (entry.recorder !== recording.recorder) {
          throw new AlambicError(
            'STALE_SYMBOL',
            `a tensor of the recording "${entry.recorder.name}" is used in "${recording.recorder.name}"`,
          );
        }
        return entry.value;
      case 'host':
        entry.value ??= recording.recorder.addConstant(entry.dtype, entry.shape, entry.bytes);
        return entry.value;
      case 'eager': {
        let value = recording.captured.get(id);
        if (value === undefined) {
          value = recording.recorder.addInput(entry.dtype, entry.shape);
          recording.captured.set(id, value);
        }
        return value;
      }
      default:
        throw entry satisfies never;
    }
  }

  #describe(value: Value): TensorMetadata {
    const id = this.#put({ kind: 'symbol', recorder: this.#recording!.recorder, value });
    // An output of unknown rank is harmless while nobody reads it (FusedBatchNormV3's sixth); an unknown dimension is not.
    const shape = value.shape?.map((n) => {
      if (n < 0) {
        const at = userLine(value.op.origin);
        throw new AlambicError(
          'SHAPE_UNKNOWN',
          `op ${value.op.type} gives a tensor of unknown shape [${value.shape}] inside a recorded function`,
          {
            ...(at === undefined ? {} : { at }),
            hint: 'Recorded functions need static shapes: avoid ops whose result shape depends on values (where, unique, boolean masks).',
          },
        );
      }
      return n;
    });
    return { id, shape: shape ?? [0], dtype: value.dtype };
  }

  #adopt(handle: Pointer, value?: Value): TensorMetadata {
    const c = this.#c;
    const known = value?.shape;
    if (known?.every((n) => n >= 0)) {
      const id = this.#put({ kind: 'eager', handle, dtype: value!.dtype, shape: known, owners: 1 });
      return { id, shape: [...known], dtype: value!.dtype };
    }
    const dtype = c.handleType(handle) as number;
    const rank = c.handleRank(handle, this.#status.pointer) as number;
    this.#status.check('shape');
    const shape = Array.from({ length: rank }, (_, i) => Number(c.handleDim(handle, i, this.#status.pointer)));
    return { id: this.#put({ kind: 'eager', handle, dtype, shape, owners: 1 }), shape: [...shape], dtype };
  }

  #execute(op: Pointer, type: string, outputs: number): TensorMetadata[] {
    const handles: Pointer[] = new Array(outputs).fill(null);
    const count = [outputs];
    this.#c.execute(op, handles, count, this.#status.pointer);
    this.#status.check(type, () => captureOrigin(this.executeOp));
    return handles.slice(0, count[0]).map((handle) => this.#adopt(handle));
  }

  #decode(dtype: number, bytes: Uint8Array): HostValues {
    switch (dtype) {
      case DTYPE.float32:
        return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
      case DTYPE.int32:
        return new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
      case DTYPE.int64:
        return new BigInt64Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 8);
      case DTYPE.bool:
      case DTYPE.uint8:
        return bytes;
      case DTYPE.complex64:
        return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
      default:
        throw new AlambicError('ENGINE_DTYPE', `a tensor of ${dtypeName(dtype)} cannot be read`, {
          hint: 'Cast it to float32 or int32 first.',
        });
    }
  }

  #settersOf(op: Pointer): AttributeSetters {
    const c = this.#c;
    return {
      text: (name, value) => c.setOpString(op, name, value, Buffer.byteLength(value)),
      int: (name, value) => c.setOpInt(op, name, value),
      ints: (name, values) => c.setOpIntList(op, name, values, values.length),
      float: (name, value) => c.setOpFloat(op, name, value),
      floats: (name, values) => c.setOpFloatList(op, name, values, values.length),
      bool: (name, value) => c.setOpBool(op, name, value),
      type: (name, value) => c.setOpType(op, name, value),
      shape: (name, dims) => {
        c.setOpShape(op, name, dims, dims.length, this.#status.pointer);
        this.#status.check(name);
      },
    };
  }
}
