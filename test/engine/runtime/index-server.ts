import http, { type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Wheel } from '../../../src/engine/runtime/manifest.ts';

export interface ServerOptions {
  readonly wheel: Wheel;
  readonly bytes: Buffer;
  /** Answer range requests. @default true */
  readonly ranges?: boolean;
  /** Break the connection after so many bytes of the first answers, one number for each. */
  readonly cuts?: readonly number[];
  /** Never end the first answer after so many bytes. */
  readonly stall?: number;
  /** HTML instead of JSON. */
  readonly html?: boolean;
  /** Status of the first file answers. */
  readonly statuses?: readonly number[];
  /** Demand these credentials, `user:password`. */
  readonly credentials?: string;
  readonly tls?: { key: string; cert: string };
  /** @default any free one */
  readonly port?: number;
}

/** A package index on the loopback device that notes what it is asked. */
export interface IndexServer {
  readonly url: string;
  /** Range header (or `whole`) of each request for the file. */
  readonly asked: string[];
  readonly pages: string[];
  close(): Promise<void>;
}

export async function startIndex(options: ServerOptions): Promise<IndexServer> {
  const asked: string[] = [];
  const pages: string[] = [];
  const cuts = [...(options.cuts ?? [])];
  const statuses = [...(options.statuses ?? [])];
  let stall = options.stall;
  const { file, sha256 } = options.wheel.files[0]!;
  const listener: RequestListener = (request, response) => {
    if (options.credentials !== undefined && !isAllowed(request, options.credentials)) {
      response.writeHead(401).end();
      return;
    }
    if (request.url === `/simple/${options.wheel.project}/`) {
      pages.push(request.headers.accept ?? '');
      sendPage(response, file, sha256, options.html ?? false);
      return;
    }
    if (request.url !== `/files/${file}`) {
      // Indexes redirect to their file host.
      if (request.url === `/moved/${file}`) response.writeHead(302, { location: `/files/${file}` }).end();
      else response.writeHead(404).end();
      return;
    }
    const range = request.headers.range;
    asked.push(range ?? 'whole');
    const status = statuses.shift() ?? 200;
    if (status !== 200) {
      response.writeHead(status).end();
      return;
    }
    const start = range !== undefined && options.ranges !== false ? Number(/\d+/.exec(range)![0]) : 0;
    const body = options.bytes.subarray(start);
    const head = { 'content-length': body.length };
    if (start > 0) {
      response.writeHead(206, {
        ...head,
        'content-range': `bytes ${start}-${options.bytes.length - 1}/${options.bytes.length}`,
      });
    } else response.writeHead(200, head);
    const cut = cuts.shift();
    if (cut !== undefined) response.write(body.subarray(0, cut), () => setTimeout(() => response.destroy(), 20));
    else if (stall !== undefined) {
      response.write(body.subarray(0, stall));
      stall = undefined;
    } else response.end(body);
  };
  const server = options.tls === undefined ? http.createServer(listener) : https.createServer(options.tls, listener);
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `${options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}/simple`,
    asked,
    pages,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function isAllowed(request: IncomingMessage, credentials: string): boolean {
  return request.headers.authorization === `Basic ${Buffer.from(credentials).toString('base64')}`;
}

function sendPage(response: ServerResponse, file: string, sha256: string, html: boolean): void {
  if (html) {
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
    response.end(
      `<!DOCTYPE html><a href="../../moved/${file}#sha256=${sha256}" data-requires-python="&gt;=3.10">${file}</a><br/>`,
    );
    return;
  }
  response.writeHead(200, { 'content-type': 'application/vnd.pypi.simple.v1+json' });
  response.end(JSON.stringify({ files: [{ filename: file, url: `../../moved/${file}`, hashes: { sha256 } }] }));
}
