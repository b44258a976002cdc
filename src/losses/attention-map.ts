import type { Tensor } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import { inject, injectable } from 'inversify';
import { z } from 'zod';
import { AlambicError } from '../errors.ts';
import type { Shape } from '../nn/module.ts';
import type { Loss } from '../plugin-host/contract.ts';
import { definePlugin } from '../plugin-host/define.ts';
import { TOKEN } from '../plugin-host/tokens.ts';
import { meanSquaredError } from './mean-squared-error.ts';
import { requireTeacher } from './teacher-shape.ts';

const options = z.strictObject({
  power: z
    .number()
    .positive()
    .default(2)
    .meta({ description: 'power of the absolute activations before the mean over the channels' }),
});

type Options = z.output<typeof options>;

/**
 * Spatial attention of features [N,H,W,C]: mean over the channels of `|f|^power`, each map scaled to Euclidean length 1; [N,H·W]. An
 * all-zero map stays zero, with gradient zero.
 */
export function attentionMap(features: Tensor, power = 2): Tensor {
  return tf.tidy(() => {
    const energy = power === 2 ? tf.square(features) : tf.pow(tf.abs(features), power);
    const [items, height, width] = features.shape as [number, number, number];
    const map = tf.reshape(tf.mean(energy, 3), [items, height * width]);
    // The floor is torch's `F.normalize` (1e-12, here squared): the root of a sum of zeros would have no gradient.
    return tf.mul(map, tf.rsqrt(tf.maximum(tf.sum(tf.square(map), 1, true), 1e-24)));
  });
}

/**
 * Attention transfer (arXiv 1612.03928): mean over H·W of the squared difference of the attention maps of student and teacher, per item
 * [N]; the channels may differ. Of two sizes the larger is brought to the smaller by adaptive average pooling. No gradient flows into
 * the teacher. Usual weight 1000. Throws PRECONDITION.
 *
 * @example
 * const loss = attentionTransfer(student.tap('layer3'), teacher.tap('layer3'));
 */
export function attentionTransfer(
  student: Tensor,
  teacher: Tensor,
  { power = 2 }: { readonly power?: number | undefined } = {},
): Tensor {
  requireMaps(student.shape, teacher.shape);
  return tf.tidy(() => {
    const [height, width] = [1, 2].map((axis) => Math.min(student.shape[axis]!, teacher.shape[axis]!)) as [
      number,
      number,
    ];
    const own = attentionMap(adaptiveAveragePool(student, height, width), power);
    const target = attentionMap(adaptiveAveragePool(teacher, height, width), power);
    return meanSquaredError(own, target);
  });
}

/** Average pooling [N,H,W,C] to any smaller size, as torch's adaptive_avg_pool2d: two products with constant matrices. */
function adaptiveAveragePool(x: Tensor, height: number, width: number): Tensor {
  const [n, h, w, c] = x.shape as [number, number, number, number];
  let y = x;
  if (h !== height)
    y = tf.reshape(tf.matMul(spread(poolMatrix(h, height), n), tf.reshape(y, [n, h, w * c])), [n, height, w, c]);
  if (w === width) return y;
  const rows = tf.reshape(y, [n * height, w, c]);
  return tf.reshape(tf.matMul(spread(poolMatrix(w, width), n * height), rows), [n, height, width, c]);
}

/** The same matrix for each of n products: tfjs has no gradient of a product that broadcasts. */
function spread(matrix: Tensor, n: number): Tensor {
  return tf.tile(tf.expandDims(matrix, 0), [n, 1, 1]);
}

/** Row i averages the inputs ⌊i·from/to⌋ … ⌈(i+1)·from/to⌉ − 1. */
function poolMatrix(from: number, to: number): Tensor {
  const values = new Float32Array(to * from);
  for (let row = 0; row < to; row++) {
    const first = Math.floor((row * from) / to);
    const end = Math.ceil(((row + 1) * from) / to);
    values.fill(1 / (end - first), row * from + first, row * from + end);
  }
  return tf.tensor2d(values, [to, from]);
}

function requireMaps(student: Shape, teacher: Shape | undefined): void {
  if (student.length === 4 && teacher?.length === 4 && student[0] === teacher[0]) return;
  throw new AlambicError(
    'PRECONDITION',
    `attention-map compares features [N,H,W,C], got student [${student}] and teacher ${teacher === undefined ? 'none' : `[${teacher}]`}`,
    { hint: 'Choose taps of convolutional layers; `alambic inspect MODEL` lists them with their shapes.' },
  );
}

@injectable()
class AttentionMap implements Loss {
  constructor(@inject(TOKEN.Options) private readonly options: Options) {}

  check({ student, teacher }: { student: Shape; teacher?: Shape }): void {
    requireMaps(student, teacher);
  }

  call({ student, teacher }: { student: Tensor; teacher?: Tensor }): Tensor {
    return attentionTransfer(student, requireTeacher(teacher, 'attention-map'), this.options);
  }
}

export default definePlugin({
  name: 'attention-map',
  kind: 'loss',
  apiVersion: 1,
  description: 'Attention transfer: squared difference of normalised spatial attention maps.',
  options,
  implementation: AttentionMap,
});
