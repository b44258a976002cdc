import { EXIT } from '../../errors.ts';
import { formatPercent } from '../../loggers/quantities.ts';
import { clip, padTo, visibleWidth } from '../../loggers/text-table.ts';
import { findModel } from '../../train/find-model.ts';
import { openModel, Predictor } from '../../train/predict.ts';
import type { Command } from '../command.ts';
import { openEngineFor } from '../engine-options.ts';
import { hostOf } from '../host-of-run.ts';

/** `alambic predict MODEL IMAGE…`: classes of image files with their probabilities. */
export const run: Command = async ({ args, options, writer }) => {
  const images = args[1] as readonly string[];
  const place = await findModel(args[0] as string);
  const host = await hostOf(place);
  await openEngineFor(options, writer);
  const predictor = new Predictor(await openModel(place.folder, host));
  const { bold, dim } = writer.colors;
  const width = Math.min(48, Math.max(...images.map(visibleWidth)));
  try {
    for await (const prediction of predictor.predict(images, options.top)) {
      const [first, ...others] = prediction.classes.map(
        ({ label, probability }) => `${label} ${formatPercent(probability)}`,
      );
      const name = padTo(clip(prediction.image, width), width);
      writer.result(`${name}  ${bold(first ?? '')}  ${dim(others.join('  '))}`.trimEnd(), prediction);
    }
  } finally {
    predictor.dispose();
  }
  return EXIT.ok;
};
