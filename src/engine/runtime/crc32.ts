import zlib from 'node:zlib';

/** CRC-32 of bytes, going on from the CRC of those before; zlib's own where Node has it (20.15 on). */
export const crc32: (bytes: Uint8Array, before?: number) => number =
  typeof zlib.crc32 === 'function' ? (bytes, before = 0) => zlib.crc32(bytes, before) : crc32ByTable;

let table: Uint32Array | undefined;

/** The same in JavaScript. */
export function crc32ByTable(bytes: Uint8Array, before = 0): number {
  table ??= makeTable();
  let crc = ~before;
  for (const byte of bytes) crc = table[(crc ^ byte) & 0xff]! ^ (crc >>> 8);
  return ~crc >>> 0;
}

function makeTable(): Uint32Array {
  return Uint32Array.from({ length: 256 }, (_, n) => {
    let value = n;
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
    return value >>> 0;
  });
}
