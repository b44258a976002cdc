import { z } from 'zod';
import { AlambicError } from '../errors.ts';
import type { Preprocessing } from '../nn/module.ts';
import type { Use } from '../plugin-host/use.ts';

/** What travels with a model's weights: enough to build the network, prepare its images and name its outputs. */
export interface ModelConfig {
  /** Name in the zoo, equal to timm's where timm has the network. */
  readonly architecture: string;
  readonly classes: number;
  /** Class names in the order of the outputs; empty where the file names none. */
  readonly labels: readonly string[];
  readonly preprocessing: Preprocessing;
  /** Parameter name prefix of the classifier, where the file says it. */
  readonly classifier?: string;
  /** The model plugin and its options that built the network, where the file is ours. */
  readonly model?: Use;
}

const channelValues = z.array(z.number()).min(1);
const configSchema = z.looseObject({
  architecture: z.string(),
  num_classes: z.int().nonnegative().optional(),
  label_names: z.union([z.array(z.string()), z.record(z.string(), z.string())]).optional(),
  alambic: z.looseObject({ model: z.looseObject({ use: z.string() }).optional() }).optional(),
  pretrained_cfg: z.looseObject({
    input_size: z.tuple([z.int().positive(), z.int().positive(), z.int().positive()]),
    mean: channelValues,
    std: channelValues,
    interpolation: z.enum(['nearest', 'bilinear', 'bicubic']).default('bilinear'),
    crop_pct: z.number().positive().default(1),
    num_classes: z.int().nonnegative().optional(),
    classifier: z.string().optional(),
  }),
});

/** The text of a `config.json` as timm reads it (`timm.create_model('local-dir:FOLDER')`). */
export function encodeModelConfig(config: ModelConfig): string {
  const { architecture, classes, labels, preprocessing, classifier, model } = config;
  const [height, width, channels] = preprocessing.inputSize;
  const json = {
    architecture,
    num_classes: classes,
    ...(labels.length === 0 ? {} : { label_names: labels }),
    // timm builds its network for three channels unless told otherwise.
    ...(channels === 3 ? {} : { model_args: { in_chans: channels } }),
    pretrained_cfg: {
      input_size: [channels, height, width],
      fixed_input_size: false,
      interpolation: preprocessing.interpolation,
      crop_pct: preprocessing.cropShare,
      crop_mode: 'center',
      mean: preprocessing.mean,
      std: preprocessing.std,
      num_classes: classes,
      ...(classifier === undefined ? {} : { classifier }),
    },
    // timm reads past keys that it does not know.
    ...(model === undefined ? {} : { alambic: { model } }),
  };
  return `${JSON.stringify(json, null, 2)}\n`;
}

/**
 * Reads the text of a `config.json` of ours or timm's.
 *
 * @param at Path, for errors.
 * @throws AlambicError MODEL_CONFIG that names the field.
 */
export function decodeModelConfig(text: string, at: string): ModelConfig {
  const hint =
    'A model folder holds `config.json` {architecture, num_classes, pretrained_cfg, label_names} beside `model.safetensors`.';
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new AlambicError('MODEL_CONFIG', `expected JSON: ${(cause as Error).message}`, { at, hint, cause });
  }
  const parsed = configSchema.safeParse(json);
  if (!parsed.success) {
    const { path, message } = parsed.error.issues[0]!;
    throw new AlambicError('MODEL_CONFIG', `${path.join('.') || 'the file'}: ${message}`, { at, hint });
  }
  const { architecture, num_classes, label_names = [], pretrained_cfg: cfg, alambic } = parsed.data;
  const [channels, height, width] = cfg.input_size;
  const labels = Array.isArray(label_names) ? label_names : labelsOfIndex(label_names);
  const classes = num_classes ?? cfg.num_classes ?? labels.length;
  if (labels.length > 0 && labels.length !== classes)
    throw new AlambicError(
      'MODEL_CONFIG',
      `label_names: expected ${classes} names, one a class, got ${labels.length}`,
      {
        at,
        hint,
      },
    );
  for (const key of ['mean', 'std'] as const)
    if (cfg[key].length !== channels)
      throw new AlambicError(
        'MODEL_CONFIG',
        `pretrained_cfg.${key}: expected ${channels} values, got ${cfg[key].length}`,
        {
          at,
          hint,
        },
      );
  return {
    architecture,
    classes,
    labels,
    preprocessing: {
      inputSize: [height, width, channels],
      mean: cfg.mean,
      std: cfg.std,
      interpolation: cfg.interpolation,
      cropShare: cfg.crop_pct,
    },
    ...(cfg.classifier === undefined ? {} : { classifier: cfg.classifier }),
    ...(alambic?.model === undefined ? {} : { model: alambic.model }),
  };
}

/** timm allows `{ "0": "tench", … }`; gaps get the index as their name. */
function labelsOfIndex(names: Readonly<Record<string, string>>): string[] {
  const last = Math.max(-1, ...Object.keys(names).map(Number));
  return Array.from({ length: last + 1 }, (_, i) => names[i] ?? String(i));
}
