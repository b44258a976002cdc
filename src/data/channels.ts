import { AlambicError } from '../errors.ts';
import type { DecodedImage } from './source.ts';

/**
 * An image with the wanted number of channels: grey is repeated, colour becomes grey by BT.601 (with PIL's rounding), alpha is
 * dropped. The result may be the input itself. Throws `DATA_CHANNELS` for any other change.
 */
export function convertChannels(image: DecodedImage, channels: number, id: string): DecodedImage {
  const { data, height, width, channels: from } = image;
  if (from === channels) return image;
  const count = height * width;
  const out = new Uint8Array(count * channels);
  if (from <= 2 && channels === 3) {
    for (let i = 0; i < count; i++) out.fill(data[i * from]!, 3 * i, 3 * i + 3);
  } else if (from >= 3 && channels === 1) {
    for (let i = 0; i < count; i++) {
      const p = i * from;
      out[i] = (data[p]! * 19595 + data[p + 1]! * 38470 + data[p + 2]! * 7471 + 0x8000) >> 16;
    }
  } else if (from > channels && (channels === 1 || channels === 3)) {
    for (let i = 0; i < count; i++) for (let c = 0; c < channels; c++) out[i * channels + c] = data[i * from + c]!;
  } else {
    throw new AlambicError('DATA_CHANNELS', `expected ${channels} channel(s), got ${from}: ${id}`, {
      hint: 'Grey (1) and RGB (3) can be converted into each other; set the third number of `input` to fit the data.',
      at: id,
    });
  }
  return { data: out, height, width, channels };
}
