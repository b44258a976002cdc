const encoder = new TextEncoder();

function rotate(x: number, bits: number): number {
  return (x << bits) | (x >>> (32 - bits));
}

/** MurmurHash3 (x86, 32 bits) of a string's UTF-8 bytes, as an unsigned integer. */
export function murmur3(text: string, seed = 0): number {
  const bytes = encoder.encode(text);
  const blocks = bytes.length & ~3;
  let h = seed | 0;
  for (let i = 0; i < blocks; i += 4) {
    let k = bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24);
    k = Math.imul(rotate(Math.imul(k, 0xcc9e2d51), 15), 0x1b873593);
    h = (Math.imul(rotate(h ^ k, 13), 5) + 0xe6546b64) | 0;
  }
  let tail = 0;
  for (let i = bytes.length - 1; i >= blocks; i--) tail = (tail << 8) | bytes[i]!;
  if (bytes.length > blocks) h ^= Math.imul(rotate(Math.imul(tail, 0xcc9e2d51), 15), 0x1b873593);
  h ^= bytes.length;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/**
 * A number in 0..1 (53 random bits) that depends on the id and the salt only: the same on every machine, in every listing.
 *
 * @example
 * unitHash('cat/17.jpg', 'split') < 0.7 // for 70 % of all ids
 */
export function unitHash(id: string, salt = ''): number {
  const text = `${salt}\u0000${id}`;
  return ((murmur3(text, 0x9747b28c) >>> 5) * 0x4000000 + (murmur3(text, 0x3c6ef372) >>> 6)) / 0x20000000000000;
}
