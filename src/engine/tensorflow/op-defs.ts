import { copyBuffer, type Library } from './library.ts';

/** What the recorder must know of an op beyond its name. */
export interface OpDef {
  readonly name: string;
  /** Per input argument: whether it takes a list of tensors, and the attribute that holds the list's length, if any. */
  readonly inputs: readonly { readonly list: boolean; readonly numberAttr: string | undefined }[];
  /** Has a state or side effect: never removed or merged with another. */
  readonly stateful: boolean;
}

/** Minimal reader of protobuf's wire format: fields of one message. */
function* readFields(bytes: Uint8Array): Generator<{ field: number; value: Uint8Array | number }> {
  let at = 0;
  const varint = () => {
    let result = 0;
    let scale = 1;
    for (;;) {
      const byte = bytes[at++]!;
      result += (byte & 0x7f) * scale;
      if (byte < 0x80) return result;
      scale *= 128;
    }
  };
  while (at < bytes.length) {
    const key = varint();
    const field = Math.floor(key / 8);
    switch (key % 8) {
      case 0:
        yield { field, value: varint() };
        break;
      case 1:
        at += 8;
        break;
      case 2: {
        const length = varint();
        yield { field, value: bytes.subarray(at, at + length) };
        at += length;
        break;
      }
      case 5:
        at += 4;
        break;
      default:
        throw new Error(`unexpected wire type in the op list at byte ${at}`);
    }
  }
}

const text = new TextDecoder();

function parseOp(bytes: Uint8Array): OpDef {
  let name = '';
  let stateful = false;
  const inputs: { list: boolean; numberAttr: string | undefined }[] = [];
  for (const { field, value } of readFields(bytes)) {
    if (field === 1) name = text.decode(value as Uint8Array);
    else if (field === 17) stateful = value === 1;
    else if (field === 2) {
      let numberAttr: string | undefined;
      let typeList = false;
      for (const part of readFields(value as Uint8Array)) {
        if (part.field === 5) numberAttr = text.decode(part.value as Uint8Array);
        if (part.field === 6) typeList = (part.value as Uint8Array).length > 0;
      }
      inputs.push({
        list: typeList || (numberAttr ?? '') !== '',
        numberAttr: numberAttr === '' ? undefined : numberAttr,
      });
    }
  }
  return { name, inputs, stateful };
}

/** All ops that the loaded TensorFlow knows (field numbers of op_def.proto). */
export function readOpDefs(c: Library): Map<string, OpDef> {
  const buffer = c.allOps();
  const bytes = copyBuffer(buffer);
  c.deleteBuffer(buffer);
  const defs = new Map<string, OpDef>();
  for (const { field, value } of readFields(bytes)) {
    if (field !== 1) continue;
    const def = parseOp(value as Uint8Array);
    defs.set(def.name, def);
  }
  return defs;
}
