import { murmur3 } from './hash.ts';

/** Uniform unsigned 32-bit integers: sfc32 (Chris Doty-Humphrey), keyed by a string. */
function keyedIntegers(key: string): () => number {
  let a = murmur3(key, 1) | 0;
  let b = murmur3(key, 2) | 0;
  let c = murmur3(key, 3) | 0;
  let counter = 1;
  const next = () => {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return sum >>> 0;
  };
  for (let i = 0; i < 12; i++) next();
  return next;
}

/**
 * The order in which an epoch visits `length` items: a permutation that depends on (length, seed, epoch) only, never on the batch
 * size, the number of readers or the epochs before. So a position in the data is the pair (epoch, offset), and a resume needs no replay.
 *
 * Method: Fisher-Yates over sfc32 keyed by (seed, epoch), with rejection so that every permutation is equally likely up to the generator.
 *
 * @example
 * const order = epochOrder(50_000, 1, 3);
 * order.subarray(128, 192); // the third batch of 64
 */
export function epochOrder(length: number, seed: number, epoch: number): Int32Array {
  const order = Int32Array.from({ length }, (_, i) => i);
  const next = keyedIntegers(`${seed}/${epoch}`);
  for (let i = length - 1; i > 0; i--) {
    const range = i + 1;
    const limit = 0x1_0000_0000 - (0x1_0000_0000 % range);
    let draw = next();
    while (draw >= limit) draw = next();
    const j = draw % range;
    const kept = order[i]!;
    order[i] = order[j]!;
    order[j] = kept;
  }
  return order;
}
