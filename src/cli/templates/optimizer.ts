import {
  definePlugin,
  inject,
  injectable,
  type Optimizer,
  type Role,
  type Tensors,
  TOKEN,
  tf,
  type UpdateContext,
  z,
} from 'alambic/plugin';

const Options = z.strictObject({
  rate: z.number().positive().describe('learning rate that schedule and groups multiply'),
  momentum: z.number().min(0).lt(1).default(0.9).describe('share of the velocity that stays'),
  decay: z.number().min(0).default(0).describe('weight decay of kernels and embeddings, decoupled'),
});

/** Signum (arXiv 1802.04434): steps of equal size along the sign of the velocity. Slot `velocity`. */
@injectable()
export class MyOptimizer implements Optimizer {
  constructor(@inject(TOKEN.Options) private readonly options: z.output<typeof Options>) {}

  get baseRate(): number {
    return this.options.rate;
  }

  decayOf(role: Role, decay: boolean): number {
    return decay && ['kernel', 'depthwise-kernel', 'embedding'].includes(role) ? this.options.decay : 0;
  }

  init(_name: string, value: tf.Tensor): Tensors {
    return { velocity: tf.zerosLike(value) };
  }

  update(_name: string, value: tf.Tensor, gradient: tf.Tensor, slots: Tensors, context: UpdateContext) {
    const momentum = context.momentum ?? tf.scalar(this.options.momentum);
    const velocity = tf.add(tf.mul(slots['velocity']!, momentum), tf.mul(gradient, tf.sub(1, momentum)));
    const decay = tf.mul(value, this.decayOf(context.role, context.decay));
    return { value: tf.sub(value, tf.mul(tf.add(tf.sign(velocity), decay), context.rate)), slots: { velocity } };
  }
}

export default definePlugin({
  name: 'my-optimizer',
  kind: 'optimizer',
  apiVersion: 1,
  description: 'Signum: steps along the sign of the velocity.',
  options: Options,
  implementation: MyOptimizer,
});
