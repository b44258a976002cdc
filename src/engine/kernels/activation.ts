import type { Tensor } from '@tensorflow/tfjs-core';
import { differentiable } from './differentiable.ts';
import { runOp, T_FLOAT } from './execute.ts';

function activate(op: string, x: Tensor): Tensor {
  const [y] = differentiable(
    { x },
    () => {
      const result = runOp(op, [T_FLOAT], [x]);
      return { results: [result], saved: [result] };
    },
    // The gradient needs only the output: keeping it instead of the input lets the input's memory go.
    (dy, [savedY]) => ({ x: () => runOp(`${op}Grad`, [T_FLOAT], [dy, savedY!]) }),
  );
  return y!;
}

/** max(x, 0), with TensorFlow's own gradient op (tfjs composes it from several). */
export function relu(x: Tensor): Tensor {
  return activate('Relu', x);
}

/** min(max(x, 0), 6). */
export function relu6(x: Tensor): Tensor {
  return activate('Relu6', x);
}
