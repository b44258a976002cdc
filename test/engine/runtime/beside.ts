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
// In `only-worker` no thread but the worker loads it.
const loaded = what === 'only-worker' ? undefined : loadLibrary(folder, ['TFE_NewContext']);

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
  // A thread that computes, and one that loads the library too.
  assert.equal(
    await messageOf(new Worker('require("node:worker_threads").parentPort.postMessage(6 * 7)', { eval: true })),
    42,
  );
  const loader = new Worker(new URL('load-in-worker.mjs', import.meta.url), { workerData: folder, execArgv: [] });
  assert.equal(await messageOf(loader), loaded!.version);
}

function messageOf(worker: Worker): Promise<unknown> {
  return new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
}

async function run(): Promise<string> {
  if (what === 'all') await useAll();
  if (loaded !== undefined) return `ok ${loaded.version} ${loaded.oneDnn}`;
  return `ok ${await messageOf(new Worker(new URL('load-in-worker.mjs', import.meta.url), { workerData: folder, execArgv: [] }))}`;
}

run().then(
  (line) => process.stdout.write(`${line}\n`),
  (error: unknown) => {
    process.stderr.write(`${String((error as Error).stack)}\n`);
    process.exitCode = 1;
  },
);
