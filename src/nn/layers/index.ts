export { ACTIVATIONS, Activation, type ActivationName } from './activation.ts';
export { BatchNorm, type BatchNormOptions } from './batch-norm.ts';
export { Conv, type ConvOptions } from './conv.ts';
export { Dense, type DenseOptions } from './dense.ts';
export { DepthwiseConv } from './depthwise-conv.ts';
export { Dropout } from './dropout.ts';
export { AveragePool, Flatten, GlobalPool, MaxPool } from './pool.ts';
export { Sequential } from './sequential.ts';
