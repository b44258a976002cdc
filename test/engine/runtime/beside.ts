// Run as a process of its own by load.test.ts: loads TensorFlow, then uses what shares libraries or threads with it.
import { strict as assert } from 'node:assert';
import { webcrypto } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { Worker } from 'node:worker_threads';
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib';
import { loadLibrary } from '../../../src/engine/runtime/load.ts';
import { selfSignedCertificate } from './certificate.ts';

const folder = process.argv[2]!;
const what = process.argv[3]!;
const loaded = loadLibrary(folder, ['TFE_NewContext']);

async function roundTripOverTls(): Promise<void> {
  const { key, cert } = selfSignedCertificate();
  const server = https.createServer({ key, cert }, (_, response) => response.end('over TLS'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const text = await new Promise<string>((resolve, reject) => {
    https
      .get({ host: '127.0.0.1', port, ca: cert, agent: false }, async (answer) => {
        let body = '';
        for await (const chunk of answer) body += String(chunk);
        resolve(body);
      })
      .on('error', reject);
  });
  server.close();
  assert.equal(text, 'over TLS');
}

async function useAll(): Promise<void> {
  await roundTripOverTls();
  const bytes = Buffer.alloc(1_000_000, 'alambic ');
  assert.deepEqual(gunzipSync(gzipSync(bytes)), bytes);
  assert.deepEqual(brotliDecompressSync(brotliCompressSync(bytes)), bytes);
  const digest = await webcrypto.subtle.digest('SHA-256', bytes.subarray(0, 3));
  assert.equal(digest.byteLength, 32);
  assert.ok((await lookup('localhost')).address.length > 0);
  const answer = await new Promise<number>((resolve, reject) => {
    const worker = new Worker('require("node:worker_threads").parentPort.postMessage(6 * 7)', { eval: true });
    worker.once('message', resolve).once('error', reject);
  });
  assert.equal(answer, 42);
}

(what === 'only-load' ? Promise.resolve() : useAll()).then(
  () => process.stdout.write(`ok ${loaded.version} ${loaded.oneDnn}\n`),
  (error: unknown) => {
    process.stderr.write(`${String((error as Error).stack)}\n`);
    process.exitCode = 1;
  },
);
