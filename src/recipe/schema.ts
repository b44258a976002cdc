import { z } from 'zod';
import { splitsSchema } from '../data/split.ts';
import type { PluginKind } from '../plugin-host/contract.ts';
import { showValue } from '../plugin-host/explain.ts';
import type { Use } from '../plugin-host/use.ts';

/** Makes the schema of a use of a plugin: strict and bound to a host for parsing, a union to look at for editors. */
export type UseSchema = (kind: PluginKind) => z.ZodType<Use>;

const matching = (pattern: RegExp, expected: string) =>
  z.string().regex(pattern, { error: ({ input }) => `expected ${expected}, got ${showValue(input)}` });
const entryName = () => matching(/^[^\s/.[\]=]+$/, 'a name without spaces, dots, slashes, brackets and =');
const metricName = () => matching(/^[^/\s]+\/[^/\s]+$/, '`split/name`, for instance dev/top1');

const positive = () => z.int().positive();
const share = () => z.number().min(0).max(1);
const size = () => z.tuple([positive(), positive(), positive()]);

const labelled = () =>
  z.union([z.int().nonnegative(), z.record(z.string().min(1), z.int().nonnegative())]).meta({
    description: 'number of training items that keep their label, spread over the classes; or a number for each class',
  });

const augment = (use: UseSchema) =>
  z
    .array(use('transform'))
    .meta({ description: 'transforms of the training images, in order; on the device, inside the recorded step' });

function dataSchema(use: UseSchema) {
  return z
    .strictObject({
      source: use('source').meta({ description: 'where the images come from' }),
      splits: splitsSchema.optional().meta({
        description:
          "what each split takes: a share of all items, the name of the source's own split, or { from, share }; by hash of the item's id. Default: the source's own splits, else train 0.8, dev 0.1, test 0.1",
      }),
      labelled: labelled().optional(),
      input: size()
        .optional()
        .meta({ description: '[height, width, channels] of the batches; default: the input size of the first model' }),
      resize: z
        .strictObject({
          rule: z
            .enum(['resize', 'pad', 'error'])
            .default('resize')
            .meta({ description: 'what becomes of an image of another size' }),
          interpolation: z
            .enum(['nearest', 'bilinear', 'bicubic'])
            .default('bilinear')
            .meta({ description: 'how pixels are interpolated; both smooth ones shrink with antialias' }),
          fit: z
            .enum(['stretch', 'cover'])
            .default('stretch')
            .meta({ description: 'stretch to the size, or keep the aspect and cut what stands over' }),
          cropShare: share()
            .gt(0)
            .default(1)
            .meta({ description: 'share of the shorter side that the centre crop keeps' }),
        })
        .optional()
        .meta({ description: 'how images of another size become the input size' }),
      augment: augment(use).default([]),
      normalise: z
        .union([
          z.enum(['model', 'none']),
          z.strictObject({
            mean: z.array(z.number()).min(1).meta({ description: 'mean of each channel, of values in 0..1' }),
            std: z.array(z.number().positive()).min(1).meta({ description: 'standard deviation of each channel' }),
          }),
        ])
        .default('model')
        .meta({
          description:
            "subtract mean and divide by std: as the first model's weights ask for, not at all, or given numbers",
        }),
      loader: z
        .strictObject({
          readers: positive().default(8).meta({ description: 'items that are read at the same time' }),
          prefetch: positive().default(2).meta({ description: 'batches that are made ready ahead of the step' }),
          onUnreadable: z
            .enum(['error', 'skip'])
            .default('error')
            .meta({ description: 'what becomes of an item that cannot be read' }),
        })
        .prefault({})
        .meta({ description: 'how items are read' }),
    })
    .meta({ description: 'the data of all stages' });
}

/** Keys of a model beside the options of its plugin. */
export const MODEL_KEYS = {
  weights: z
    .string()
    .min(1)
    .optional()
    .meta({ description: 'values to start from: a checkpoint folder or a safetensors file, relative to the recipe' }),
};

const teacherSchema = () =>
  z
    .union([
      z.string().min(1),
      z.strictObject({
        model: z.string().min(1).meta({ description: 'one of `models`' }),
        floor: share().optional().meta({
          description:
            'least top-1 accuracy on the held-out split, 0..1; a worse teacher is an error before the first step',
        }),
        mode: z
          .enum(['infer', 'batch-stats', 'train'])
          .default('infer')
          .meta({ description: "how the teacher's normalisation runs" }),
      }),
    ])
    .transform((teacher) => (typeof teacher === 'string' ? { model: teacher, mode: 'infer' as const } : teacher));

function stageSchema(use: UseSchema) {
  return z
    .strictObject({
      name: entryName().meta({
        description: 'unique among the stages; names the metrics, the checkpoints and the rows of the report',
      }),
      model: z.string().min(1).meta({ description: 'the student: one of `models`' }),
      initial: z
        .string()
        .min(1)
        .optional()
        .meta({ description: 'another of `models` whose present values this stage starts from' }),
      teachers: z
        .record(z.string().min(1), teacherSchema())
        .default({})
        .meta({ description: 'teachers by the name that strategies use: a model, or { model, floor, mode }' }),
      strategies: z
        .array(use('strategy'))
        .min(1)
        .meta({ description: 'what the stage learns from and who trains when; their losses add up' }),
      optimizer: use('optimizer').meta({ description: 'how parameters are updated' }),
      schedule: use('schedule')
        .prefault('constant' as never)
        .meta({ description: 'how the rate moves over the stage' }),
      epochs: positive().optional().meta({ description: 'passes over the training items; this or `steps`' }),
      steps: positive().optional().meta({ description: 'updates of the parameters; this or `epochs`' }),
      batch: positive().default(64).meta({ description: 'items in a batch' }),
      accumulate: positive().default(1).meta({ description: 'batches whose gradients make one update' }),
      clip: z
        .strictObject({
          norm: z.number().positive().optional().meta({ description: 'largest norm of all gradients together' }),
          value: z.number().positive().optional().meta({ description: 'largest absolute value of each gradient' }),
        })
        .refine(
          ({ norm, value }) => norm !== undefined || value !== undefined,
          'expected `norm` or `value`, got neither',
        )
        .optional()
        .meta({ description: 'limits the gradients; with both, the norm first' }),
      ema: z
        .strictObject({
          decay: z
            .number()
            .gt(0)
            .lt(1)
            .default(0.999)
            .meta({ description: 'share of the average that stays at each update' }),
          warmup: z
            .boolean()
            .default(true)
            .meta({ description: 'a smaller decay at first, so that the average follows from the start' }),
          evaluate: z
            .enum(['ema', 'raw'])
            .default('ema')
            .meta({ description: 'which values are evaluated and handed on' }),
        })
        .optional()
        .meta({ description: 'exponential moving average of the parameters' }),
      data: z
        .strictObject({
          labelled: labelled().optional(),
          items: z
            .enum(['all', 'labelled'])
            .default('all')
            .meta({ description: 'see all training items, or only those with a label' }),
          repeat: positive().default(1).meta({
            description: 'times that each item is seen in one epoch; for sets so small that an epoch is a few updates',
          }),
          augment: augment(use).optional(),
        })
        .prefault({})
        .meta({ description: "this stage's own choice of the data" }),
      seed: z.int().nonnegative().optional().meta({ description: "the stage's own seed; default: the recipe's" }),
      patience: positive()
        .optional()
        .meta({ description: 'evaluations without a better `monitor` after which the stage ends early' }),
      minDelta: z
        .number()
        .nonnegative()
        .default(0)
        .meta({ description: 'by how much a value must be better to count' }),
      monitor: metricName()
        .optional()
        .meta({ description: 'metric that `patience` watches, `split/name`; default: `run.keep.monitor`' }),
    })
    .meta({ description: 'one phase of training' });
}

function runSchema(use: UseSchema) {
  return z
    .strictObject({
      folder: z
        .string()
        .min(1)
        .optional()
        .meta({ description: 'the run folder, relative to the working folder; default: runs/<name>-<time>' }),
      keep: z
        .strictObject({
          last: positive().default(1).meta({ description: 'newest checkpoints that stay' }),
          best: z
            .int()
            .nonnegative()
            .default(1)
            .meta({ description: 'best checkpoints of each stage that stay, by `monitor`' }),
          monitor: metricName()
            .default('dev/top1')
            .meta({ description: 'metric that says what is best, `split/name`' }),
          mode: z
            .enum(['max', 'min'])
            .optional()
            .meta({ description: "whether more or less is better; default: by the metric's name" }),
        })
        .prefault({})
        .meta({ description: 'which checkpoints stay' }),
      evaluateEvery: positive().default(1).meta({ description: 'epochs between evaluations' }),
      logEvery: positive().default(20).meta({ description: 'updates between lines of the log' }),
      saveEvery: z
        .int()
        .nonnegative()
        .default(0)
        .meta({ description: 'updates between checkpoints within an epoch; 0: only at its end' }),
      metrics: z.array(use('metric')).default([]).meta({ description: 'further metrics of each evaluation' }),
      callbacks: z.array(use('callback')).default([]).meta({ description: 'plugins that follow the run' }),
      loggers: z
        .array(use('logger'))
        .default([])
        .meta({ description: 'further logs beside the console and log.jsonl' }),
    })
    .prefault({})
    .meta({ description: 'what is written while training' });
}

const engineSchema = () =>
  z
    .strictObject({
      device: matching(/^(auto|cpu|gpu:\d+)$/, 'auto, cpu or gpu:0')
        .default('auto')
        .meta({ description: 'auto, cpu or gpu:0' }),
      mode: z
        .enum(['eager', 'graph', 'xla'])
        .optional()
        .meta({ description: 'how steps run: op by op (to debug), as a graph, or compiled by XLA; default: graph' }),
      threads: positive().optional().meta({ description: 'CPU threads; default: the number of cores' }),
    })
    .prefault({})
    .meta({ description: 'where and how steps run' });

const reportSchema = () =>
  z
    .strictObject({
      compare: z.array(z.string()).optional().meta({ description: 'stages in the order of the table; default: all' }),
      baseline: z.string().optional().meta({ description: 'stage that the others are compared with' }),
    })
    .prefault({})
    .meta({ description: 'the report at the end' });

/**
 * Schema of a recipe. `use` says how a use of a plugin is checked (bound to a host), `model` likewise with the keys of a model beside it.
 */
export function recipeSchema(use: UseSchema, model: z.ZodType<ModelEntry>) {
  return z.strictObject({
    name: z.string().min(1).optional().meta({ description: "name of the run folder; default: the file's name" }),
    description: z.string().optional().meta({ description: 'one sentence on what the recipe shows' }),
    extends: z
      .union([z.string().min(1), z.array(z.string().min(1))])
      .optional()
      .meta({ description: 'recipes that this one changes, relative to it; later ones win' }),
    baseFolder: z
      .string()
      .min(1)
      .optional()
      .meta({ description: "folder that relative paths start from; default: the recipe's own. A saved recipe has it" }),
    plugins: z
      .array(z.string().min(1))
      .default([])
      .meta({ description: 'files (./my-loss.ts) or packages with plugins, relative to the recipe' }),
    seed: z.int().nonnegative().default(1).meta({ description: 'of everything random' }),
    data: dataSchema(use),
    models: z.record(entryName(), model).meta({ description: 'networks by name' }),
    stages: z.array(stageSchema(use)).min(1).meta({ description: 'phases of training, in order' }),
    engine: engineSchema(),
    run: runSchema(use),
    report: reportSchema(),
  });
}

/** A model of a recipe: a use of a model plugin, and where its first values come from. */
export interface ModelEntry extends Use {
  readonly weights?: string;
}

type Parsed = z.output<ReturnType<typeof recipeSchema>>;

/** A stage with every default filled in. */
export type RecipeStage = Parsed['stages'][number];

/** A resolved recipe: every default filled in, every plugin's options parsed. Frozen; also its own input (`saveResolved`). */
export type Recipe = Omit<Parsed, 'extends' | 'name' | 'baseFolder'> & {
  readonly name: string;
  /** Absolute folder that relative paths start from. */
  readonly baseFolder: string;
};

/** A recipe as it may be written: short forms, defaults left out. */
export type RecipeInput = z.input<ReturnType<typeof recipeSchema>>;
