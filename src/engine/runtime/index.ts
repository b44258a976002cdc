import koffi from 'koffi';
export async function ensureRuntime(_o: { say?: (line: string) => void }): Promise<{ folder: string }> {
  return { folder: process.env['ALAMBIC_TENSORFLOW_DIR']! };
}
export function loadLibrary(folder: string, _s: readonly string[]) {
  process.env['TF_ENABLE_ONEDNN_OPTS'] ??= '1';
  process.env['TF_CPP_MIN_LOG_LEVEL'] ??= '2';
  const c = koffi.load('libc.so.6');
  const dlopen = c.func('void *dlopen(const char *, int)');
  dlopen(`${folder}/libtensorflow_framework.so.2`, 0x1002);
  dlopen(`${folder}/libtensorflow_cc.so.2`, 0x1002);
  return { library: koffi.load(`${folder}/libtensorflow_cc.so.2`) };
}
