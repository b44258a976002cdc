import type { Tensor } from '@tensorflow/tfjs-core';
import { AlambicError } from '../errors.ts';
import type { Shape } from '../nn/module.ts';

/** The teacher's tensor of a loss that compares with one. Throws PRECONDITION. */
export function requireTeacher(teacher: Tensor | undefined, loss: string): Tensor {
  if (teacher === undefined) {
    throw new AlambicError('PRECONDITION', `${loss} compares with a teacher, there is none`, {
      hint: 'Use it in a strategy with a teacher, for instance `distillation`.',
    });
  }
  return teacher;
}

/** Student and teacher must have equal shapes of the given rank (any where absent). Throws PRECONDITION. */
export function requireEqualShapes(student: Shape, teacher: Shape | undefined, loss: string, rank?: number): void {
  const equal = teacher !== undefined && student.length === teacher.length && student.every((n, i) => n === teacher[i]);
  if (!equal || student.length < 1 || (rank !== undefined && student.length !== rank)) {
    const expected = rank === 2 ? 'equal shapes [N,C]' : 'equal shapes';
    throw new AlambicError(
      'PRECONDITION',
      `${loss} expects ${expected}, got student [${student}] and teacher ${teacher === undefined ? 'none' : `[${teacher}]`}`,
      { hint: 'Both must be trained on the same classes; for features choose taps of equal shape.' },
    );
  }
}
