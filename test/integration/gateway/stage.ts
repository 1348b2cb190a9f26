/** A backend, an engine and a bare listener before it, on loopback; all closed when the test ends. */
import { createServer, request as httpRequest } from "node:http";
import type { IncomingHttpHeaders, IncomingMessage, RequestListener, Server } from "node:http";
import { connect, createServer as createTcpServer } from "node:net";
import type { AddressInfo, Server as TcpServer, Socket } from "node:net";
import { onTestFinished } from "vitest";
import { readClient } from "../../../src/gateway/client/client.ts";
import { openTarget } from "../../../src/gateway/upstream/open-target.ts";
import { TrustedProxies } from "../../../src/gateway/client/trusted-proxies.ts";
import { answerOn } from "../../../src/gateway/upstream/upgrade-engine.ts";
import { defaultUpstreamOptions } from "../../../src/gateway/upstream/upstream.ts";
import type {
  Delivery,
  UpstreamExchange,
  TargetEngine,
  TargetOptions,
} from "../../../src/gateway/upstream/upstream.ts";

/** `undici`: the tests of the engine run with the other one, which is to do the same. */
const protocol = process.env["COINSLOT_TEST_ENGINE"] === "undici" ? "h2" : "http1";

/** No peer is believed anything. */
const NOBODY = new TrustedProxies([]);

async function open(server: Server | TcpServer): Promise<number> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const address = server.address() as AddressInfo;
  return address.port;
}

/** A real HTTP backend; resolves with its origin. */
export async function backend(listener: RequestListener, keepAliveMs = 60_000): Promise<string> {
  const server = createServer({ keepAliveTimeout: keepAliveMs }, listener);
  return `http://127.0.0.1:${await open(server)}`;
}

/** A backend that speaks whatever the test writes; `number` counts its connections from 1. */
export async function rawBackend(
  onConnection: (socket: Socket, number: number) => void,
): Promise<string> {
  let number = 0;
  const server = createTcpServer((socket) => {
    number += 1;
    onConnection(socket, number);
  });
  return `http://127.0.0.1:${await open(server)}`;
}

/** Calls back with every complete request head that arrives on the socket. */
export function onHead(socket: Socket, listener: (head: string) => void): void {
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
    for (let end = text.indexOf("\r\n\r\n"); end !== -1; end = text.indexOf("\r\n\r\n")) {
      const head = text.slice(0, end + 4);
      text = text.slice(end + 4);
      listener(head);
    }
  });
}

export interface Stage {
  readonly port: number;
  readonly engine: TargetEngine;
  /** What became of the next exchange that nobody asked about yet. */
  readonly delivery: () => Promise<Delivery>;
  /** The exchanges in the order in which they came. */
  readonly exchanges: Pick<UpstreamExchange, "request" | "response">[];
}

type Passage = Pick<
  UpstreamExchange,
  | "requestHeaders"
  | "removed"
  | "host"
  | "declined"
  | "begin"
  | "responseSet"
  | "responseAdded"
  | "sale"
>;

/** The engine behind a listener that answers `unanswered` with its status and reason. */
export async function stage(
  origin: string,
  options: Partial<TargetOptions> = {},
  passage: Partial<Passage> = {},
): Promise<Stage> {
  const engine = openTarget({ ...defaultUpstreamOptions, origin, protocol, ...options });
  const deliveries: Promise<Delivery>[] = [];
  const waiting: ((delivery: Promise<Delivery>) => void)[] = [];
  const report = (delivery: Promise<Delivery>): void => {
    const next = waiting.shift();
    if (next === undefined) deliveries.push(delivery);
    else next(delivery);
  };
  const exchanges: Stage["exchanges"] = [];
  const none = { requestHeaders: [], responseSet: [], responseAdded: [], sale: null };
  const extra: Passage = { ...none, ...passage };
  const server = createServer({ keepAliveTimeout: 60_000, optimizeEmptyRequests: true });
  server.on("request", (request, response) => {
    exchanges.push({ request, response });
    const target = request.url ?? "/";
    const client = readClient(request, NOBODY);
    const delivery = engine.forward({ request, response, client, target, ...extra });
    report(delivery);
    void ifUnanswered(delivery, (status, reason) => {
      response.writeHead(status, { connection: "close" });
      response.end(reason);
    });
  });
  server.on("upgrade", (request: IncomingMessage, socket: Socket) => {
    socket.on("error", () => {});
    const target = request.url ?? "/";
    const client = readClient(request, NOBODY);
    const delivery = engine.upgrade({ request, socket, client, target, ...extra });
    report(delivery);
    void ifUnanswered(delivery, (status, reason) => {
      answerOn(socket, { status, lines: [], body: reason });
    });
  });
  const port = await open(server);
  onTestFinished(() => engine.close(AbortSignal.abort()));
  return {
    port,
    engine,
    exchanges,
    delivery: () =>
      deliveries.shift() ??
      new Promise<Delivery>((resolve) => {
        waiting.push(resolve);
      }),
  };
}

async function ifUnanswered(
  delivery: Promise<Delivery>,
  answer: (status: number, reason: string) => void,
): Promise<void> {
  const result = await delivery;
  if (result.kind === "unanswered") answer(result.status, result.reason);
}

export interface Answer {
  readonly status: number;
  readonly phrase: string;
  readonly rawHeaders: readonly string[];
  readonly headers: IncomingHttpHeaders;
  readonly rawTrailers: readonly string[];
  readonly body: Buffer;
}

export interface Sent {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: readonly string[];
  /** Several parts are sent chunked unless `headers` say a length. */
  readonly body?: readonly (string | Buffer)[];
  /** Of 127.0.0.0/8; default: 127.0.0.1. */
  readonly localAddress?: string;
}

/** One request on its own connection, its answer read to the end. Rejects when the answer is cut. */
export async function send(port: number, sent: Sent = {}): Promise<Answer> {
  const { method = "GET", path = "/", headers = [], body = [], localAddress } = sent;
  const host = headers.some((text) => text.toLowerCase() === "host") ? [] : ["Host", "front"];
  const options = { port, host: "127.0.0.1", method, path, agent: false };
  const from = localAddress === undefined ? {} : { localAddress };
  const outgoing = httpRequest({ ...options, ...from, headers: [...host, ...headers] as string[] });
  for (const part of body) outgoing.write(part);
  outgoing.end();
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.on("response", resolve).on("error", reject);
  });
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  return {
    status: answer.statusCode ?? 0,
    phrase: answer.statusMessage ?? "",
    rawHeaders: answer.rawHeaders,
    headers: answer.headers,
    rawTrailers: answer.rawTrailers,
    body: Buffer.concat(chunks),
  };
}

/** A client of bytes: `until` resolves with everything received once it holds `mark`. */
export class RawClient {
  readonly socket: Socket;
  #received = "";
  /** Resolves with everything received once the connection is over, and how it ended. */
  readonly closed: Promise<{ readonly text: string; readonly reset: boolean }>;

  constructor(port: number, text = "") {
    this.socket = connect(port, "127.0.0.1");
    let reset = false;
    this.socket.on("error", () => {
      reset = true;
    });
    this.socket.on("data", (chunk) => {
      this.#received += chunk.toString("latin1");
    });
    this.closed = new Promise((resolve) => {
      this.socket.once("close", () => resolve({ text: this.#received, reset }));
    });
    this.socket.write(text, "latin1");
    onTestFinished(() => void this.socket.destroy());
  }

  async until(mark: string): Promise<string> {
    while (!this.#received.includes(mark)) {
      await new Promise<void>((resolve, reject) => {
        const closed = (): void => reject(new Error(`closed after ${this.#received}`));
        this.socket.once("close", closed);
        this.socket.once("data", () => {
          this.socket.off("close", closed);
          resolve();
        });
      });
    }
    return this.#received;
  }
}
