import attentionMap from './attention-map.ts';
import crossEntropy from './cross-entropy.ts';
import kullbackLeibler from './kullback-leibler.ts';
import meanSquaredError from './mean-squared-error.ts';

/** Built-in plugins of the kind `loss`. */
export const LOSS_PLUGINS = [attentionMap, crossEntropy, kullbackLeibler, meanSquaredError] as const;
