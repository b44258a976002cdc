/** Conversions between float32 and the two 16-bit float formats, on their bits. NaN stays NaN, infinities and signed zeros are kept. */

/** IEEE binary16 bits -> float32, exact for every value, subnormals and the payload of NaNs included. */
export function float16ToFloat32(bits: Uint16Array): Float32Array {
  const out = new Uint32Array(bits.length);
  for (let i = 0; i < bits.length; i++) {
    const half = bits[i]!;
    const sign = (half & 0x8000) << 16;
    const exponent = (half >>> 10) & 0x1f;
    const fraction = half & 0x3ff;
    if (exponent === 0x1f) out[i] = sign | 0x7f800000 | (fraction << 13);
    else if (exponent !== 0) out[i] = sign | ((exponent + 112) << 23) | (fraction << 13);
    else if (fraction === 0) out[i] = sign;
    else {
      // Subnormal: shift the leading one to the implicit place (bit 10) and lower the exponent by as much.
      const shift = Math.clz32(fraction) - 21;
      out[i] = sign | ((113 - shift) << 23) | (((fraction << shift) & 0x3ff) << 13);
    }
  }
  return new Float32Array(out.buffer);
}

/** float32 -> IEEE binary16 bits, rounded to nearest, ties to even; beyond 65504 (rounded) becomes infinity. */
export function float32ToFloat16(values: Float32Array): Uint16Array {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const out = new Uint16Array(words.length);
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    const sign = (word >>> 16) & 0x8000;
    const magnitude = word & 0x7fffffff;
    if (magnitude > 0x7f800000) out[i] = sign | 0x7e00 | ((magnitude >>> 13) & 0x1ff);
    else if (magnitude >= 0x477ff000) out[i] = sign | 0x7c00;
    else if (magnitude >= 0x38800000) {
      // Normal: rebias the exponent (127 -> 15); a carry out of the fraction runs into the exponent, as it should.
      const rebiased = magnitude - 0x38000000;
      out[i] = sign | ((rebiased + 0xfff + ((rebiased >>> 13) & 1)) >>> 13);
    } else if (magnitude >= 0x33000000) {
      // Subnormal: units of 2^-24.
      const shift = 126 - (magnitude >>> 23);
      const fraction = (magnitude & 0x7fffff) | 0x800000;
      const rounding = (1 << (shift - 1)) - 1 + ((fraction >>> shift) & 1);
      out[i] = sign | ((fraction + rounding) >>> shift);
    } else out[i] = sign;
  }
  return out;
}

/** bfloat16 bits -> float32, exact. */
export function bfloat16ToFloat32(bits: Uint16Array): Float32Array {
  const out = new Uint32Array(bits.length);
  for (let i = 0; i < bits.length; i++) out[i] = bits[i]! << 16;
  return new Float32Array(out.buffer);
}

/** float32 -> bfloat16 bits, rounded to nearest, ties to even. */
export function float32ToBfloat16(values: Float32Array): Uint16Array {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const out = new Uint16Array(words.length);
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    const notANumber = (word & 0x7fffffff) > 0x7f800000;
    // The quiet bit keeps a NaN whose payload lies in the lower half from becoming an infinity.
    out[i] = notANumber ? (word >>> 16) | 0x40 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  }
  return out;
}
