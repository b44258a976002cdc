import digits from './sources/digits.ts';
import idx from './sources/idx.ts';
import imageFolder from './sources/image-folder.ts';
import affine from './transforms/affine.ts';
import centerCrop from './transforms/center-crop.ts';
import colourJitter from './transforms/colour-jitter.ts';
import flip from './transforms/flip.ts';
import greyscale from './transforms/greyscale.ts';
import normalise from './transforms/normalise.ts';
import randomCrop from './transforms/random-crop.ts';
import randomResizedCrop from './transforms/random-resized-crop.ts';
import resize from './transforms/resize.ts';

/** Built-in plugins of the kind `source`. */
export const SOURCE_PLUGINS = [digits, idx, imageFolder] as const;

/** Built-in plugins of the kind `transform`. */
export const TRANSFORM_PLUGINS = [
  affine,
  centerCrop,
  colourJitter,
  flip,
  greyscale,
  normalise,
  randomCrop,
  randomResizedCrop,
  resize,
] as const;
