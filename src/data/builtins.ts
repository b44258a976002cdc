import digits from './sources/digits.ts';
import idx from './sources/idx.ts';
import imageFolder from './sources/image-folder.ts';

/** Built-in plugins of the kind `source`. */
export const SOURCE_PLUGINS = [digits, idx, imageFolder] as const;
