import { readFileSync } from 'node:fs';
import http, { type IncomingMessage, type RequestOptions } from 'node:http';
import https from 'node:https';
import { isIP, type Socket } from 'node:net';
import tls from 'node:tls';
import type { RuntimeContext } from './context.ts';

export interface GetOptions {
  readonly env: RuntimeContext['env'];
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** An answer whose body has not been read. */
export interface Answer {
  /** Where it came from after redirects, without credentials. */
  readonly url: string;
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: IncomingMessage;
}

/** Longest silence of a connection, in ms. */
const SILENCE = 60_000;

/**
 * GET over http(s) with redirects, as pip does it: through HTTPS_PROXY / HTTP_PROXY unless NO_PROXY names the host, with the
 * certificates of PIP_CERT, REQUESTS_CA_BUNDLE or SSL_CERT_FILE beside Node's own, and credentials out of the URL.
 */
export async function get(url: string, options: GetOptions, redirects = 10): Promise<Answer> {
  const target = new URL(url);
  const headers: Record<string, string> = { 'user-agent': 'alambic', ...options.headers };
  if (target.username !== '') headers['authorization'] = basic(target);
  const body = await request(target, headers, options);
  const status = body.statusCode ?? 0;
  const location = body.headers.location;
  if (status >= 300 && status < 400 && status !== 304 && location !== undefined) {
    body.resume();
    if (redirects === 0) throw new Error(`too many redirects from ${withoutCredentials(url)}`);
    const next = new URL(location, target);
    // Credentials stay with their host.
    if (next.host === target.host && next.protocol === target.protocol && next.username === '') {
      next.username = target.username;
      next.password = target.password;
    }
    return get(next.href, options, redirects - 1);
  }
  return { url: withoutCredentials(url), status, headers: body.headers, body };
}

/** A URL that may be shown. */
export function withoutCredentials(url: string): string {
  const shown = new URL(url);
  shown.username = '';
  shown.password = '';
  return shown.href;
}

/** The proxy for a URL, by the usual variables; lower-case names win, as with curl. */
export function proxyFor(target: URL, env: RuntimeContext['env']): URL | undefined {
  const value = (name: string) => env[name.toLowerCase()] || env[name];
  const proxy = (target.protocol === 'https:' ? value('HTTPS_PROXY') : value('HTTP_PROXY')) || value('ALL_PROXY');
  if (!proxy) return undefined;
  const host = target.hostname.toLowerCase();
  const port = target.port || (target.protocol === 'https:' ? '443' : '80');
  for (const rule of (value('NO_PROXY') ?? '').toLowerCase().split(/[\s,]+/)) {
    if (rule === '*') return undefined;
    const [, name, rulePort] = /^\*?\.?(.+?)(?::(\d+))?$/.exec(rule) ?? [];
    if (name === undefined || (rulePort !== undefined && rulePort !== port)) continue;
    if (host === name || host.endsWith(`.${name}`)) return undefined;
  }
  return new URL(/^[a-z]+:\/\//i.test(proxy) ? proxy : `http://${proxy}`);
}

async function request(target: URL, headers: Record<string, string>, options: GetOptions): Promise<IncomingMessage> {
  const proxy = proxyFor(target, options.env);
  const secure = target.protocol === 'https:';
  const common: RequestOptions = { method: 'GET', headers, ...(options.signal && { signal: options.signal }) };
  if (proxy === undefined) {
    const direct = { ...common, host: hostOf(target), port: target.port, path: target.pathname + target.search };
    return secure ? send(https.request({ ...direct, ...authorities(options.env) })) : send(http.request(direct));
  }
  if (!secure) {
    // A proxy takes the whole URL as path.
    const whole = { ...headers, host: target.host, ...proxyAuthorization(proxy) };
    return send(
      http.request({
        ...common,
        headers: whole,
        host: hostOf(proxy),
        port: proxy.port || 80,
        path: withoutCredentials(target.href),
      }),
    );
  }
  const tunnel = await connect(proxy, `${target.hostname}:${target.port || 443}`, options);
  const name = hostOf(target);
  // A certificate may be for an address, but an address may not be asked for by name.
  const asked = isIP(name) === 0 ? { servername: name } : { host: name };
  const socket = tls.connect({ socket: tunnel, ...asked, ...authorities(options.env) });
  return send(
    http.request({
      ...common,
      headers: { ...headers, host: target.host },
      path: target.pathname + target.search,
      createConnection: () => socket,
    }),
  );
}

function send(call: http.ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    call.setTimeout(SILENCE, () => call.destroy(Object.assign(new Error('no answer for 60 s'), { code: 'ETIMEDOUT' })));
    call.once('response', resolve);
    call.once('error', reject);
    call.end();
  });
}

/** A tunnel through a proxy. */
function connect(proxy: URL, authority: string, options: GetOptions): Promise<Socket> {
  const settings: RequestOptions = {
    method: 'CONNECT',
    host: hostOf(proxy),
    port: proxy.port || (proxy.protocol === 'https:' ? 443 : 80),
    path: authority,
    headers: { host: authority, ...proxyAuthorization(proxy) },
    ...(options.signal && { signal: options.signal }),
  };
  const call =
    proxy.protocol === 'https:' ? https.request({ ...settings, ...authorities(options.env) }) : http.request(settings);
  return new Promise((resolve, reject) => {
    call.setTimeout(SILENCE, () =>
      call.destroy(Object.assign(new Error('the proxy does not answer'), { code: 'ETIMEDOUT' })),
    );
    call.once('connect', (answer, socket) => {
      if (answer.statusCode === 200) resolve(socket);
      else {
        socket.destroy();
        reject(new Error(`the proxy ${proxy.host} answered ${answer.statusCode} ${answer.statusMessage ?? ''}`.trim()));
      }
    });
    call.once('response', (answer) => {
      answer.resume();
      reject(new Error(`the proxy ${proxy.host} answered ${answer.statusCode}`));
    });
    call.once('error', reject);
    call.end();
  });
}

/** Certificates that the user's other tools trust, beside those that Node trusts. */
function authorities(env: RuntimeContext['env']): { ca?: string[] } {
  const file = env['PIP_CERT'] || env['REQUESTS_CA_BUNDLE'] || env['SSL_CERT_FILE'];
  if (!file) return {};
  const own = env['NODE_EXTRA_CA_CERTS'];
  const files = own ? [file, own] : [file];
  return { ca: [...tls.rootCertificates, ...files.map(readText)] };
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new Error(`the file of certificates cannot be read: ${(error as Error).message}`);
  }
}

/** Without the brackets of an IPv6 address. */
function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '');
}

function basic(url: URL): string {
  const text = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  return `Basic ${Buffer.from(text).toString('base64')}`;
}

function proxyAuthorization(proxy: URL): Record<string, string> {
  return proxy.username === '' ? {} : { 'proxy-authorization': basic(proxy) };
}
