import koffi from 'koffi';

/** An opaque C pointer. */
export type Pointer = unknown;

/** One output of a graph operation, as the C API passes it. */
export interface GraphOutput {
  oper: Pointer;
  index: number;
}

/** Names of every C function that alambic calls; the loader checks that the library has them all. */
export const SYMBOLS = [
  'TF_Version',
  'TF_NewStatus',
  'TF_DeleteStatus',
  'TF_GetCode',
  'TF_Message',
  'TF_GetAllOpList',
  'TF_DeleteBuffer',
  'TF_AllocateTensor',
  'TF_TensorData',
  'TF_TensorByteSize',
  'TF_DeleteTensor',
  'TFE_NewContextOptions',
  'TFE_DeleteContextOptions',
  'TFE_ContextOptionsSetConfig',
  'TFE_NewContext',
  'TFE_ContextListDevices',
  'TF_DeviceListCount',
  'TF_DeviceListType',
  'TF_DeviceListName',
  'TF_DeleteDeviceList',
  'TFE_NewTensorHandle',
  'TFE_DeleteTensorHandle',
  'TFE_TensorHandleResolve',
  'TFE_TensorHandleDataType',
  'TFE_TensorHandleNumDims',
  'TFE_TensorHandleDim',
  'TFE_TensorHandleCopyToDevice',
  'TFE_NewOp',
  'TFE_DeleteOp',
  'TFE_OpSetDevice',
  'TFE_OpAddInput',
  'TFE_OpSetAttrString',
  'TFE_OpSetAttrInt',
  'TFE_OpSetAttrIntList',
  'TFE_OpSetAttrFloat',
  'TFE_OpSetAttrFloatList',
  'TFE_OpSetAttrBool',
  'TFE_OpSetAttrType',
  'TFE_OpSetAttrShape',
  'TFE_Execute',
  'TFE_ContextAddFunction',
  'TFE_ContextRemoveFunction',
  'TF_DeleteFunction',
  'TF_NewGraph',
  'TF_DeleteGraph',
  'TF_NewOperation',
  'TF_FinishOperation',
  'TF_AddInput',
  'TF_AddInputList',
  'TF_SetAttrString',
  'TF_SetAttrInt',
  'TF_SetAttrIntList',
  'TF_SetAttrFloat',
  'TF_SetAttrFloatList',
  'TF_SetAttrBool',
  'TF_SetAttrType',
  'TF_SetAttrShape',
  'TF_SetAttrTensor',
  'TF_GraphGetTensorNumDims',
  'TF_GraphGetTensorShape',
  'TF_OperationOutputType',
  'TF_OperationNumOutputs',
  'TF_GraphToFunction',
] as const;

/** The C API of TensorFlow with alambic's prototypes. Kept as thin as C: no errors are looked at here. */
export type Library = ReturnType<typeof bindLibrary>;

/** Binds the prototypes to a loaded library. */
export function bindLibrary(library: ReturnType<typeof koffi.load>) {
  const output = koffi.struct({ oper: 'void *', index: 'int' });
  const outputs = koffi.pointer(output);
  const p = 'void *';
  const text = 'const char *';
  const dims = 'const int64_t *';
  type Type = Parameters<typeof koffi.sizeof>[0];
  const f = (name: (typeof SYMBOLS)[number], result: string, parameters: Type[]) =>
    library.func(name, result, parameters);
  return {
    version: f('TF_Version', text, []),
    newStatus: f('TF_NewStatus', p, []),
    deleteStatus: f('TF_DeleteStatus', 'void', [p]),
    code: f('TF_GetCode', 'int', [p]),
    message: f('TF_Message', text, [p]),
    allOps: f('TF_GetAllOpList', p, []),
    deleteBuffer: f('TF_DeleteBuffer', 'void', [p]),

    allocateTensor: f('TF_AllocateTensor', p, ['int', dims, 'int', 'size_t']),
    tensorData: f('TF_TensorData', p, [p]),
    tensorBytes: f('TF_TensorByteSize', 'size_t', [p]),
    deleteTensor: f('TF_DeleteTensor', 'void', [p]),

    newContextOptions: f('TFE_NewContextOptions', p, []),
    deleteContextOptions: f('TFE_DeleteContextOptions', 'void', [p]),
    setConfig: f('TFE_ContextOptionsSetConfig', 'void', [p, 'const void *', 'size_t', p]),
    newContext: f('TFE_NewContext', p, [p, p]),
    listDevices: f('TFE_ContextListDevices', p, [p, p]),
    deviceCount: f('TF_DeviceListCount', 'int', [p]),
    deviceType: f('TF_DeviceListType', text, [p, 'int', p]),
    deviceName: f('TF_DeviceListName', text, [p, 'int', p]),
    deleteDeviceList: f('TF_DeleteDeviceList', 'void', [p]),

    newHandle: f('TFE_NewTensorHandle', p, [p, p]),
    deleteHandle: f('TFE_DeleteTensorHandle', 'void', [p]),
    resolveHandle: f('TFE_TensorHandleResolve', p, [p, p]),
    handleType: f('TFE_TensorHandleDataType', 'int', [p]),
    handleRank: f('TFE_TensorHandleNumDims', 'int', [p, p]),
    handleDim: f('TFE_TensorHandleDim', 'int64_t', [p, 'int', p]),
    copyToDevice: f('TFE_TensorHandleCopyToDevice', p, [p, p, text, p]),

    newOp: f('TFE_NewOp', p, [p, text, p]),
    deleteOp: f('TFE_DeleteOp', 'void', [p]),
    setOpDevice: f('TFE_OpSetDevice', 'void', [p, text, p]),
    addOpInput: f('TFE_OpAddInput', 'void', [p, p, p]),
    setOpString: f('TFE_OpSetAttrString', 'void', [p, text, text, 'size_t']),
    setOpInt: f('TFE_OpSetAttrInt', 'void', [p, text, 'int64_t']),
    setOpIntList: f('TFE_OpSetAttrIntList', 'void', [p, text, dims, 'int']),
    setOpFloat: f('TFE_OpSetAttrFloat', 'void', [p, text, 'float']),
    setOpFloatList: f('TFE_OpSetAttrFloatList', 'void', [p, text, 'const float *', 'int']),
    setOpBool: f('TFE_OpSetAttrBool', 'void', [p, text, 'uint8_t']),
    setOpType: f('TFE_OpSetAttrType', 'void', [p, text, 'int']),
    setOpShape: f('TFE_OpSetAttrShape', 'void', [p, text, dims, 'int', p]),
    execute: f('TFE_Execute', 'void', [p, koffi.out(koffi.pointer(p)), koffi.inout('int *'), p]),
    addFunction: f('TFE_ContextAddFunction', 'void', [p, p, p]),
    removeFunction: f('TFE_ContextRemoveFunction', 'void', [p, text, p]),
    deleteFunction: f('TF_DeleteFunction', 'void', [p]),

    newGraph: f('TF_NewGraph', p, []),
    deleteGraph: f('TF_DeleteGraph', 'void', [p]),
    newOperation: f('TF_NewOperation', p, [p, text, text]),
    finishOperation: f('TF_FinishOperation', p, [p, p]),
    addInput: f('TF_AddInput', 'void', [p, output]),
    addInputList: f('TF_AddInputList', 'void', [p, outputs, 'int']),
    setString: f('TF_SetAttrString', 'void', [p, text, 'const void *', 'size_t']),
    setInt: f('TF_SetAttrInt', 'void', [p, text, 'int64_t']),
    setIntList: f('TF_SetAttrIntList', 'void', [p, text, dims, 'int']),
    setFloat: f('TF_SetAttrFloat', 'void', [p, text, 'float']),
    setFloatList: f('TF_SetAttrFloatList', 'void', [p, text, 'const float *', 'int']),
    setBool: f('TF_SetAttrBool', 'void', [p, text, 'uint8_t']),
    setType: f('TF_SetAttrType', 'void', [p, text, 'int']),
    setShape: f('TF_SetAttrShape', 'void', [p, text, dims, 'int']),
    setTensor: f('TF_SetAttrTensor', 'void', [p, text, p, p]),
    graphRank: f('TF_GraphGetTensorNumDims', 'int', [p, output, p]),
    graphShape: f('TF_GraphGetTensorShape', 'void', [p, output, koffi.out('int64_t *'), 'int', p]),
    outputType: f('TF_OperationOutputType', 'int', [output]),
    outputCount: f('TF_OperationNumOutputs', 'int', [p]),
    toFunction: f('TF_GraphToFunction', p, [
      p,
      text,
      'uint8_t',
      'int',
      p,
      'int',
      outputs,
      'int',
      outputs,
      p,
      p,
      text,
      p,
    ]),
  };
}

/** Bytes that TensorFlow wrote at `pointer`, as a view on its memory: copy before the owner is deleted. */
export function viewMemory(pointer: Pointer, bytes: number): Uint8Array {
  return new Uint8Array(koffi.view(pointer, bytes));
}

/** Content of a TF_Buffer {const void* data; size_t length; …}, copied. */
export function copyBuffer(pointer: Pointer): Uint8Array {
  const data = koffi.decode(pointer, 'void *');
  const length = Number(koffi.decode(pointer, 8, 'size_t'));
  return viewMemory(data, length).slice();
}
