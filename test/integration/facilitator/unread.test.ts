/** Answers of the listeners beside the gateway's: so many are owed on a connection, and who takes none holds none. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import type { RequestListener } from "node:http";
import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import { openServer, type Parts } from "../../../src/app/server.ts";
import { parseConfig } from "../../../src/config/config.ts";
import { MAX_OWED_ANSWERS } from "../../../src/gateway/listener/answers-in-turn.ts";
import { UNPLACED_MS } from "../../../src/gateway/listener/connection-table.ts";
import { UNREAD_MS } from "../../../src/gateway/message/unread.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { systemTime } from "../../../src/time/time.ts";
import { PATIENT } from "../gateway/listener/secure-stage.ts";
import { RawClient } from "../gateway/stage.ts";

const CONNECTIONS = 4;
const REQUEST_START = "http.server.request.start";
/** More than all buffers on the way hold. */
const LARGE = Buffer.alloc(32 * 1024 * 1024);

const ask = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;

const CONFIG = `
facilitator: { listen: { address: "127.0.0.1:0" }, auth: { bearer: a-token-of-the-test }, remote: [http://127.0.0.1:9] }
limits: { connections: ${CONNECTIONS} }
`;

/** `/large` is answered by more than is taken, and `/wait` never; `read` are the connections of all requests. */
async function open() {
  const handler: RequestListener = (request, response) => {
    if (request.url !== "/wait") response.end(request.url === "/large" ? LARGE : "answered");
  };
  const read: Socket[] = [];
  const onStart = (message: unknown): void => {
    const { socket } = message as { readonly socket: Socket };
    if (socket.localPort === port) read.push(socket);
  };
  subscribe(REQUEST_START, onStart);
  const config = parseConfig(CONFIG, { file: "test.yaml", env: {}, readFile: () => "" });
  if (!config.ok) throw new Error(config.problems.map(({ message }) => message).join());
  const closing = new AsyncDisposableStack();
  onTestFinished(async () => {
    unsubscribe(REQUEST_START, onStart);
    await closing.disposeAsync();
  });
  const parts: Parts = {
    config: config.config,
    telemetry: {
      logger: createLogger({ level: "silent", format: "json" }),
      metrics: new Metrics("test"),
    },
    time: systemTime,
    closing,
    patience: AbortSignal.abort(),
    tables: new Set(),
  };
  const opened = await openServer(parts, { host: "127.0.0.1", port: 0 }, handler);
  const port = opened?.port ?? 0;
  return { port, read };
}

/** Has asked for that, and takes nothing. */
async function stranger(port: number, path: string, number: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", localAddress: `127.0.9.${number}` }).pause();
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  socket.write(ask(path));
  await once(socket, "connect");
  return socket;
}

test("of a flood of requests no more are read than may be owed an answer", async () => {
  const { port, read } = await open();
  const expecting = ask("/").replace("Host", "Expect: wonders\r\nHost");
  for (const flood of [ask("/"), expecting]) {
    read.length = 0;
    const { text } = await new RawClient(port, flood.repeat(2_000)).closed;
    expect(text.split("answered")).toHaveLength(MAX_OWED_ANSWERS + 1);
    expect(read).toHaveLength(MAX_OWED_ANSWERS);
  }
});

test("answers that nobody takes hold no connection, and those that are not given do", async () => {
  const { port, read } = await open();
  for (let number = 1; number < CONNECTIONS; number += 1) await stranger(port, "/large", number);
  await stranger(port, "/wait", CONNECTIONS);
  await expect.poll(() => read.length, PATIENT).toBe(CONNECTIONS);
  const clock = vi.spyOn(performance, "now");
  onTestFinished(() => clock.mockRestore());
  clock.mockReturnValue(performance.now() + UNPLACED_MS + 1);
  for (let times = 1; times < CONNECTIONS; times += 1) {
    const client = new RawClient(port, ask("/"));
    expect(await client.until("answered")).toContain("200 OK");
    client.socket.write(ask("/wait"));
    await expect.poll(() => read.length, PATIENT).toBe(CONNECTIONS + 2 * times);
  }
  const late = await new RawClient(port, ask("/")).closed;
  expect(late.text).toBe("");
});

test("an answer that nobody takes ends its connection, and one that is not given does not", async () => {
  const { port, read } = await open();
  await stranger(port, "/large", 1);
  await stranger(port, "/wait", 2);
  await expect.poll(() => read.length, PATIENT).toBe(2);
  const ended = read.map((socket) => {
    const { remoteAddress, timeout } = socket;
    expect(timeout).toBe(UNREAD_MS);
    socket.emit("timeout");
    return [remoteAddress, socket.destroyed];
  });
  expect(Object.fromEntries(ended)).toEqual({ "127.0.9.1": true, "127.0.9.2": false });
});
