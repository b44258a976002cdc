import { AlambicError } from '../../errors.ts';
import { ATTR, type Attr } from './program.ts';

/** How one kind of op takes attributes: eager ops and graph nodes have C functions of their own. */
export interface AttributeSetters {
  text(name: string, value: string): void;
  int(name: string, value: number): void;
  ints(name: string, values: BigInt64Array): void;
  float(name: string, value: number): void;
  floats(name: string, values: Float32Array): void;
  bool(name: string, value: number): void;
  type(name: string, value: number): void;
  shape(name: string, dims: BigInt64Array): void;
}

/** Dimensions, or any list of integers, in the form the C API takes. */
export function toDims(shape: readonly number[]): BigInt64Array {
  const dims = new BigInt64Array(shape.length);
  for (let i = 0; i < shape.length; i++) dims[i] = BigInt(shape[i]!);
  return dims;
}

/** Sets one attribute by its type; one without a value keeps the op's default. */
export function setAttribute(setters: AttributeSetters, { name, type, value }: Attr): void {
  if (value === null || value === undefined) return;
  switch (type) {
    case ATTR.string:
      setters.text(name, String(value));
      break;
    case ATTR.int:
      if (Array.isArray(value)) setters.ints(name, toDims(value));
      else setters.int(name, value as number);
      break;
    case ATTR.float:
      if (Array.isArray(value)) setters.floats(name, Float32Array.from(value));
      else setters.float(name, value as number);
      break;
    case ATTR.bool:
      setters.bool(name, value ? 1 : 0);
      break;
    case ATTR.type:
      setters.type(name, value as number);
      break;
    case ATTR.shape:
      setters.shape(name, toDims(value as readonly number[]));
      break;
    default:
      throw new AlambicError('ENGINE_ATTR', `attribute ${name} has the unknown type ${type}`);
  }
}
