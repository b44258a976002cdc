import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { RuntimeContext } from '../../../src/engine/runtime/context.ts';
import { proxyFor, withoutCredentials } from '../../../src/engine/runtime/https-get.ts';
import { installRuntime } from '../../../src/engine/runtime/index.ts';
import { findOffer, indexUrls } from '../../../src/engine/runtime/package-index.ts';
import { selfSignedCertificate } from './certificate.ts';
import { type IndexServer, type ServerOptions, startIndex } from './index-server.ts';
import { fakeBundle, fakeContext, fakeWheel } from './wheel.ts';

const bytes = fakeWheel();
const bundle = fakeBundle(bytes);
const wheel = bundle.wheels[0]!;
const NO_PYTHON = { PATH: '/nowhere' };

let folder = '';
const closers: (() => Promise<void>)[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'alambic-network-'));
});
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
  rmSync(folder, { recursive: true });
});

async function serve(options: Partial<ServerOptions> = {}): Promise<IndexServer> {
  const server = await startIndex({ wheel, bytes, ...options });
  closers.push(server.close);
  return server;
}

function installFrom(url: string, env: RuntimeContext['env'] = {}) {
  const context = fakeContext(folder, url, bundle);
  return installRuntime({ context: { ...context, env: { ...context.env, ...env } } });
}

/** A proxy that notes what goes through it: absolute URLs, and tunnels. */
async function startProxy(credentials?: string): Promise<{ url: string; seen: string[] }> {
  const seen: string[] = [];
  const expected = credentials === undefined ? undefined : `Basic ${Buffer.from(credentials).toString('base64')}`;
  const proxy = http.createServer((request, response) => {
    seen.push(`GET ${request.url}`);
    if (request.headers['proxy-authorization'] !== expected) response.writeHead(407).end();
    else
      http.get(request.url!, { headers: { accept: request.headers.accept ?? '' } }, (answer) => {
        response.writeHead(answer.statusCode!, answer.headers);
        answer.pipe(response);
      });
  });
  proxy.on('connect', (request, socket, head) => {
    seen.push(`CONNECT ${request.url}`);
    if (request.headers['proxy-authorization'] !== expected) {
      socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n');
      return;
    }
    const [host, port] = request.url!.split(':');
    const target = net.connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      target.write(head);
      target.pipe(socket).pipe(target);
    });
    target.on('error', () => socket.destroy());
    socket.on('error', () => target.destroy());
  });
  // Tunnels are no longer the server's own and would keep it from closing.
  const sockets = new Set<net.Socket>();
  proxy.on('connection', (socket) => sockets.add(socket));
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  closers.push(
    () =>
      new Promise((resolve) => {
        proxy.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  );
  const { port } = proxy.address() as AddressInfo;
  return { url: `http://${credentials === undefined ? '' : `${credentials}@`}127.0.0.1:${port}`, seen };
}

test('the index is what pip and uv are set to', async () => {
  expect(
    await indexUrls({ ...NO_PYTHON, PIP_INDEX_URL: 'https://a.test/simple', UV_DEFAULT_INDEX: 'https://b.test' }),
  ).toEqual(['https://a.test/simple']);
  expect(await indexUrls({ ...NO_PYTHON, UV_DEFAULT_INDEX: 'corp=https://b.test/simple' })).toEqual([
    'https://b.test/simple',
  ]);
  expect(
    await indexUrls({
      ...NO_PYTHON,
      UV_INDEX_URL: 'https://c.test',
      PIP_EXTRA_INDEX_URL: 'https://d.test https://e.test',
    }),
  ).toEqual(['https://c.test', 'https://d.test', 'https://e.test']);
  await expect(indexUrls({ ...NO_PYTHON, PIP_INDEX_URL: 'ftp://a.test' })).rejects.toMatchObject({
    code: 'RUNTIME_NO_INDEX',
  });
  await expect(indexUrls({ ...NO_PYTHON, PIP_NO_INDEX: '1', PIP_INDEX_URL: 'https://a.test' })).rejects.toMatchObject({
    code: 'RUNTIME_NO_INDEX',
    message: expect.stringContaining('PIP_NO_INDEX'),
  });
});

test("without a setting pip's own configuration, then its built-in index, is asked for", async () => {
  const bin = join(folder, 'venv', 'bin');
  mkdirSync(bin, { recursive: true });
  const python = (configured: string) =>
    writeFileSync(
      join(bin, 'python'),
      `#!/bin/sh\ncase "$*" in *global.index-url*) ${configured};; *simple_url*) echo "index:https://built-in.test/simple";; esac\n`,
      { mode: 0o755 },
    );
  const env = { ...NO_PYTHON, VIRTUAL_ENV: join(folder, 'venv') };
  python('echo https://configured.test/simple');
  expect(await indexUrls(env)).toEqual(['https://configured.test/simple']);
  python('exit 1');
  expect(await indexUrls(env)).toEqual(['https://built-in.test/simple']);
});

test('an index that has only HTML serves, and a redirect to its file host is followed', async () => {
  const server = await serve({ html: true });
  expect(await findOffer(server.url, wheel, {})).toMatchObject({
    file: wheel.files[0],
    url: expect.stringContaining('/moved/'),
  });
  await installFrom(server.url);
  expect(server.asked).toEqual(['whole']);
});

test('an index that has another file under the pinned name is not used', async () => {
  const other = { ...wheel, files: [{ ...wheel.files[0]!, sha256: 'f'.repeat(64) }] };
  const server = await startIndex({ wheel: other, bytes });
  closers.push(server.close);
  await expect(installFrom(server.url)).rejects.toMatchObject({ code: 'RUNTIME_BAD_HASH' });
  expect(server.asked).toEqual([]);
});

test('credentials in the URL are sent, and never shown', async () => {
  const server = await serve({ credentials: 'me:s3cr%t' });
  const url = server.url.replace('//', '//me:s3cr%25t@');
  await expect(installFrom(server.url)).rejects.toMatchObject({
    message: expect.stringContaining('answered 401 (credentials?)'),
  });
  const wrong = await installFrom(url.replace('s3cr', 'wrong')).catch((error: unknown) => error as Error);
  expect(String((wrong as Error).message)).not.toContain('wrong');
  await installFrom(url);
  expect(server.asked).toEqual(['whole']);
  expect(withoutCredentials(url)).toBe(server.url);
});

test('a second index is asked where the first lacks the file', async () => {
  const empty = await startIndex({ wheel: { ...wheel, project: 'something-else' }, bytes });
  closers.push(empty.close);
  const server = await serve();
  await installFrom(empty.url, { PIP_EXTRA_INDEX_URL: server.url });
  expect(server.asked).toEqual(['whole']);
});

test('TLS: an unknown certificate is refused, PIP_CERT makes it known', async () => {
  const certificate = selfSignedCertificate();
  const server = await serve({ tls: certificate });
  await expect(installFrom(server.url)).rejects.toMatchObject({
    code: 'RUNTIME_OFFLINE',
    message: expect.stringMatching(/self.signed/),
  });
  const path = join(folder, 'ca.pem');
  writeFileSync(path, certificate.cert);
  await installFrom(server.url, { PIP_CERT: path });
  expect(server.asked).toEqual(['whole']);
});

test('a proxy is gone through, by a tunnel for https, with its credentials, unless NO_PROXY names the host', async () => {
  const certificate = selfSignedCertificate();
  const path = join(folder, 'ca.pem');
  writeFileSync(path, certificate.cert);
  const secure = await serve({ tls: certificate });
  const proxy = await startProxy('user:pass');
  await installFrom(secure.url, { HTTPS_PROXY: proxy.url, PIP_CERT: path });
  expect(new Set(proxy.seen)).toEqual(new Set([`CONNECT ${new URL(secure.url).host}`]));
  expect(secure.asked).toEqual(['whole']);

  rmSync(join(folder, 'runtime'), { recursive: true });
  const plain = await serve();
  const open = await startProxy();
  await installFrom(plain.url, { http_proxy: open.url });
  expect(open.seen[0]).toBe(`GET ${plain.url}/tensorflow-cpu/`);

  rmSync(join(folder, 'runtime'), { recursive: true });
  await installFrom(plain.url, { http_proxy: 'http://127.0.0.1:9', NO_PROXY: '.example.com, 127.0.0.1' });

  rmSync(join(folder, 'runtime'), { recursive: true });
  const refused = installFrom(secure.url, { HTTPS_PROXY: proxy.url.replace('pass', 'wrong'), PIP_CERT: path });
  await expect(refused).rejects.toMatchObject({
    code: 'RUNTIME_OFFLINE',
    message: expect.stringContaining('answered 407'),
  });
});

test('proxies by host and port', () => {
  const of = (url: string, env: Record<string, string>) => proxyFor(new URL(url), env)?.href;
  expect(of('https://a.test/', { HTTPS_PROXY: 'proxy:3128' })).toBe('http://proxy:3128/');
  expect(of('http://a.test/', { HTTPS_PROXY: 'proxy:3128' })).toBeUndefined();
  expect(of('https://a.test/', { ALL_PROXY: 'http://p:1', NO_PROXY: 'b.test' })).toBe('http://p:1/');
  for (const rule of ['a.test', '.test', '*.test', 'test', '*', 'a.test:443']) {
    expect(of('https://a.test/', { HTTPS_PROXY: 'p:1', NO_PROXY: `x.y, ${rule}` }), rule).toBeUndefined();
  }
  for (const rule of ['est', 'b.a.test', 'a.test:8443', '']) {
    expect(of('https://a.test/', { HTTPS_PROXY: 'p:1', NO_PROXY: rule }), rule).toBe('http://p:1/');
  }
});

test('where the index refuses us, pip may know better, and its file is checked', async () => {
  const server = await serve({ credentials: 'only:pip' });
  const bin = join(folder, 'venv', 'bin');
  mkdirSync(bin, { recursive: true });
  const { file } = wheel.files[0]!;
  const pip = (content: Buffer) => {
    writeFileSync(join(folder, 'payload'), content);
    writeFileSync(
      join(bin, 'python'),
      `#!/bin/sh
PATH=/usr/bin:/bin
case "$*" in *--version*) echo pip 25;; *download*)
  echo "$@" > ${folder}/args
  while [ "$1" != --dest ]; do shift; done
  cp ${folder}/payload "$2/${file}";;
esac
`,
      { mode: 0o755 },
    );
  };
  const env = { VIRTUAL_ENV: join(folder, 'venv') };
  pip(Buffer.alloc(bytes.length));
  await expect(installFrom(server.url, env)).rejects.toMatchObject({ code: 'RUNTIME_BAD_HASH' });
  expect(readdirSync(join(folder, 'runtime'))).toEqual([]);
  pip(bytes);
  expect((await installFrom(server.url, env)).origin).toBe('cache');
  const { readFileSync } = await import('node:fs');
  expect(readFileSync(join(folder, 'args'), 'utf8')).toContain(
    '--python-version 311 --implementation cp --abi cp311 --platform manylinux_2_27_x86_64 tensorflow-cpu==2.21.0',
  );
});
