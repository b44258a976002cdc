import { AlambicError } from '../../errors.ts';
import { ResNet } from './resnet.ts';

export interface CifarResNetOptions {
  readonly architecture?: string;
  /** [H, W, C]. */
  readonly inputSize: readonly [number, number, number];
  readonly classes: number;
  /** Layers with weights: 6n+2, so n basic blocks in each of the three stages. */
  readonly depth: number;
  /** Channels of the stem and of the three stages. @default [16, 16, 32, 64] */
  readonly widths?: readonly [number, number, number, number];
  /** @default false */
  readonly zeroInitLast?: boolean;
  /** Dropout before the classifier, 0..1. @default 0 */
  readonly dropRate?: number;
}

/**
 * The three-stage ResNet of small pictures (arXiv 1512.03385, section 4.2), as the distillation literature uses it: 3x3 stem, basic
 * blocks, projections on the shortcuts where the shape changes. `resnet8x4` and `resnet32x4` have widths 32, 64, 128, 256.
 *
 * @throws AlambicError MODEL_OPTION unless depth is 6n+2 with n >= 1.
 * @example
 * const student = cifarResNet({ depth: 20, inputSize: [32, 32, 3], classes: 100 });
 */
export function cifarResNet(options: CifarResNetOptions): ResNet {
  const { depth, widths = [16, 16, 32, 64], zeroInitLast = false } = options;
  const blocks = (depth - 2) / 6;
  if (!Number.isInteger(blocks) || blocks < 1) {
    throw new AlambicError('MODEL_OPTION', `expected the depth of a CIFAR ResNet to be 6n+2, got ${depth}`, {
      hint: 'Usual depths are 8, 14, 20, 32, 44, 56 and 110.',
    });
  }
  const [stemWidth, ...stages] = widths;
  return new ResNet({
    architecture: options.architecture ?? `resnet${depth}`,
    inputSize: options.inputSize,
    classes: options.classes,
    block: 'basic',
    depths: [blocks, blocks, blocks],
    widths: stages,
    stemWidth,
    stem: 'cifar',
    zeroInitLast,
    dropRate: options.dropRate ?? 0,
  });
}
