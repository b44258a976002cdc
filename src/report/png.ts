import sharp from 'sharp';

/** An image as base64 PNG; larger ones are shrunk to `most` pixels on the longer side. uint8 [H,W,C], C of 1, 3 or 4. */
export async function encodePng(
  pixels: Uint8Array,
  [height, width, channels]: readonly [number, number, number],
  most = 96,
): Promise<string> {
  const image = sharp(pixels, { raw: { height, width, channels: channels as 1 | 3 | 4 } });
  const small = Math.max(height, width) > most ? image.resize(most, most, { fit: 'inside' }) : image;
  const png = await (channels === 1 ? small.toColourspace('b-w') : small).png({ compressionLevel: 9 }).toBuffer();
  return png.toString('base64');
}
