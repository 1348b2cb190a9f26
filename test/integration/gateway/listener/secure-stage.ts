/** A shop behind TLS, on loopback, and clients of it for both protocols; all closed when the test ends. */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { request as httpsRequest } from "node:https";
import type { IncomingMessage } from "node:http";
import { connect, type ClientHttp2Session, type ClientHttp2Stream } from "node:http2";
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http2";
import { tmpdir } from "node:os";
import { createServer, type TLSSocket } from "node:tls";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { keyPairFault } from "../../../../src/config/facilitator/key-pair.ts";
import type { Gateway } from "../../../../src/gateway/gateway.ts";
import { Http2Sessions } from "../../../../src/gateway/listener/http2-sessions.ts";
import { Listener, type ListenerOptions } from "../../../../src/gateway/listener/listener.ts";
import type { KeyPair } from "../../../../src/gateway/listener/tls.ts";
import { createLogger } from "../../../../src/telemetry/logger.ts";
import { FIRST } from "../../../support/listener-tls.ts";
import { openShop, type Shop, type ShopOptions } from "../shop.ts";
import type { Answer, Sent } from "../stage.ts";

/** Largest request head of these listeners, bytes. */
export const HEADER_BYTES = 32_768;

/** For `expect.poll`: a slow machine may take its time. */
export const PATIENT = { timeout: 30_000 };

const LONG_MS = 60_000;

export interface SecureShop {
  /** Its port is that of a listener in the clear, before the same gateway. */
  readonly shop: Shop;
  readonly listener: Listener;
  readonly port: number;
  /** Where the certificate is: `tls.crt` and `tls.key`. */
  readonly folder: string;
  /** The lines that the listener logged. */
  readonly log: readonly string[];
}

export async function openSecureShop(
  origin: string,
  options: ShopOptions & { readonly listener?: Partial<ListenerOptions> } = {},
): Promise<SecureShop> {
  const folder = await mkdtemp(join(tmpdir(), "listener-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await writePair(folder, FIRST);
  const shop = await openShop(origin, options);
  const log: string[] = [];
  const destination = { write: (line: string) => void log.push(line) };
  const listener = new Listener(shop.gateway, {
    host: "127.0.0.1",
    port: 0,
    headerBytes: HEADER_BYTES,
    tls: {
      certificates: [{ certFile: join(folder, "tls.crt"), keyFile: join(folder, "tls.key") }],
      judge: keyPairFault,
      logger: createLogger({ level: "info", format: "json", destination }),
    },
    ...options.listener,
  });
  const { port } = await listener.open();
  onTestFinished(() => listener.drain(AbortSignal.abort()));
  return { shop, listener, port, folder, log };
}

export async function writePair(folder: string, { cert, key }: KeyPair): Promise<void> {
  await writeFile(join(folder, "tls.crt"), cert);
  await writeFile(join(folder, "tls.key"), key);
}

/** HTTP/2 without a gateway behind it: its port. */
export async function openSessions(
  answer: Gateway["handleRequest"],
  isPressed = false,
): Promise<number> {
  const sessions = new Http2Sessions(
    { handleRequest: answer, handleContinue: answer, work: { isPressed } },
    { headerBytes: 16_384, headMs: LONG_MS, requestMs: LONG_MS, idleMs: LONG_MS, sweepMs: LONG_MS },
  );
  const server = createServer({ ...FIRST, ALPNProtocols: ["h2"] });
  server.on("secureConnection", (socket: TLSSocket) => sessions.accept(socket));
  onTestFinished(() => {
    sessions.destroy();
    server.close();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** An HTTP/2 connection of node's client. */
export async function connectHttp2(port: number): Promise<ClientHttp2Session> {
  const session = connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false });
  session.on("error", () => {});
  onTestFinished(() => session.destroy());
  await new Promise<void>((resolve, reject) => {
    session.once("connect", () => resolve());
    session.once("close", () => reject(new Error("the connection was closed")));
  });
  return session;
}

export interface Http2Answer extends Pick<Answer, "status" | "body"> {
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly trailers: IncomingHttpHeaders | null;
  /** How the stream ended: 0 without an error. */
  readonly rstCode: number;
}

export interface Http2Sent extends Omit<Sent, "headers"> {
  readonly headers?: OutgoingHttpHeaders;
  readonly trailers?: OutgoingHttpHeaders;
}

/** Begins a request, and ends it unless it has trailers. */
export function begin(session: ClientHttp2Session, sent: Http2Sent = {}): ClientHttp2Stream {
  const { method = "GET", path = "/free", headers = {}, body = [], trailers } = sent;
  const stream = session.request(
    { ":method": method, ":path": path, ":authority": "shop.example", ...headers },
    {
      endStream: body.length === 0 && trailers === undefined,
      waitForTrailers: trailers !== undefined,
    },
  );
  if (trailers !== undefined) stream.once("wantTrailers", () => stream.sendTrailers(trailers));
  for (const part of body) stream.write(part);
  if (body.length > 0 || trailers !== undefined) stream.end();
  return stream;
}

/** The answer to a request, however its stream ends. Rejects when there is none. */
export async function answerOf(stream: ClientHttp2Stream): Promise<Http2Answer> {
  const chunks: Buffer[] = [];
  let trailers: IncomingHttpHeaders | null = null;
  const heads: [IncomingHttpHeaders, readonly string[]][] = [];
  stream.on("response", (headers, _flags, raw) => heads.push([headers, raw]));
  stream.on("trailers", (headers) => {
    trailers = headers;
  });
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  stream.on("error", () => {});
  await new Promise<void>((resolve) => void stream.once("close", resolve));
  const [headers, rawHeaders] = heads[0] ?? noAnswer(stream);
  const status = headers[":status"] ?? 0;
  const body = Buffer.concat(chunks);
  return { status: Number(status), headers, rawHeaders, trailers, body, rstCode: stream.rstCode };
}

function noAnswer({ rstCode }: ClientHttp2Stream): never {
  throw new Error(`no answer, reset with ${rstCode}`);
}

export function send2(session: ClientHttp2Session, sent: Http2Sent = {}): Promise<Http2Answer> {
  return answerOf(begin(session, sent));
}

/** One request over HTTP/1.1 and TLS on its own connection. */
export async function send1(port: number, sent: Sent = {}): Promise<Answer> {
  const { method = "GET", path = "/free", headers = [], body = [] } = sent;
  const place = { port, host: "127.0.0.1", rejectUnauthorized: false, agent: false };
  const lines = ["Host", "shop.example", ...headers];
  const outgoing = httpsRequest({ ...place, method, path, headers: lines });
  for (const part of body) outgoing.write(part);
  outgoing.end();
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.on("response", resolve).on("error", reject);
  });
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(Buffer.from(chunk));
  return {
    status: answer.statusCode ?? 0,
    phrase: answer.statusMessage ?? "",
    rawHeaders: answer.rawHeaders,
    headers: answer.headers,
    rawTrailers: answer.rawTrailers,
    body: Buffer.concat(chunks),
  };
}
