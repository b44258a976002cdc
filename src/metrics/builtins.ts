import accuracy from './accuracy.ts';
import calibration from './calibration.ts';
import meanLoss from './mean-loss.ts';
import perClass from './per-class.ts';

/** Built-in plugins of the kind `metric`. */
export const METRIC_PLUGINS = [accuracy, calibration, meanLoss, perClass] as const;
