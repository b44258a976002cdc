// Run as a worker thread by beside.ts: loads the library there and says its version.
import { parentPort, workerData } from 'node:worker_threads';
import { register } from 'tsx/esm/api';

register();
const { loadLibrary } = await import('../../../src/engine/runtime/load.ts');
parentPort.postMessage(loadLibrary(workerData, ['TFE_Execute']).version);
