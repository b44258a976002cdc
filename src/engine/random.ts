import type { Tensor } from '@tensorflow/tfjs-core';

/**
 * A key of counter-based random numbers (Philox): which stream is (seed, path), where in it is `step`.
 * The same key gives the same numbers in every engine mode and after a resume.
 */
export interface Key {
  readonly seed: number;
  /** Dotted path and purpose, for instance `layer1.0/dropout`. */
  readonly path: string;
  /** Step counter: a number, or an int32 scalar tensor where the step is recorded once and run many times. */
  readonly step: number | Tensor;
}

/** A key of the stream `path` at position `step`. */
export function makeKey(seed: number, path: string, step: number | Tensor = 0): Key {
  return { seed, path, step };
}

/** The key of a named sub-stream. */
export function deriveKey(key: Key, purpose: string): Key {
  return { ...key, path: key.path === '' ? purpose : `${key.path}/${purpose}` };
}

/** 64 bits of the stream (seed, path): FNV-1a over the path, then the SplitMix64 finaliser over both. */
export function streamKey(key: Key): bigint {
  const mask = 0xffff_ffff_ffff_ffffn;
  let hash = 0xcbf2_9ce4_8422_2325n;
  for (const byte of new TextEncoder().encode(key.path)) hash = ((hash ^ BigInt(byte)) * 0x100_0000_01b3n) & mask;
  let z = (hash ^ (BigInt(Math.trunc(key.seed)) * 0x9e37_79b9_7f4a_7c15n)) & mask;
  z = (z + 0x9e37_79b9_7f4a_7c15n) & mask;
  z = ((z ^ (z >> 30n)) * 0xbf58_476d_1ce4_e5b9n) & mask;
  z = ((z ^ (z >> 27n)) * 0x94d0_49bb_1331_11ebn) & mask;
  return z ^ (z >> 31n);
}
