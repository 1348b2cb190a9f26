/** Of the requests that come at once on one connection of HTTP/1.1, few are read, and each of these is answered. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  answerInTurn,
  MAX_OWED_ANSWERS,
} from "../../../../src/gateway/listener/answers-in-turn.ts";
import { ConnectionTable } from "../../../../src/gateway/listener/connection-table.ts";
import { openShop } from "../shop.ts";
import { backend, RawClient } from "../stage.ts";
import { PATIENT } from "./secure-stage.ts";

/** About as many as node reads in one chunk. */
const FLOOD = 2_000;
/** More than fits between a backend and its client. */
const LARGE = "x".repeat(16 * 1024 * 1024);
const REQUEST_START = "http.server.request.start";

const ask = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;

const WEBSOCKET = ask("/free/socket").replace(
  "Host",
  "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nHost",
);
const H2C = ask("/free").replace("Host", "Connection: Upgrade\r\nUpgrade: h2c\r\nHost");

/** A shop whose backend answers once it is told to, each with its path; `read`: what node makes of the port's requests. */
async function heldShop() {
  const held: ServerResponse[] = [];
  let isReleased = false;
  const paths: string[] = [];
  const origin = await backend((request, response) => {
    paths.push(request.url ?? "");
    if (request.url === "/free/broken") response.write("part", () => response.destroy());
    else if (isReleased) response.end(request.url);
    else held.push(response);
  });
  const shop = await openShop(origin);
  const read: Socket[] = [];
  const onStart = (message: unknown): void => {
    const { socket } = message as { readonly socket: Socket };
    if (socket.localPort === shop.port) read.push(socket);
  };
  subscribe(REQUEST_START, onStart);
  onTestFinished(() => void unsubscribe(REQUEST_START, onStart));
  const release = (but?: string): void => {
    isReleased = true;
    for (const response of held) {
      const { url } = response.req;
      if (url !== but) response.end(url === "/free/large" ? LARGE : url);
    }
  };
  return { ...shop, paths, read, release };
}

const bodiesIn = (text: string): string[] =>
  [...text.matchAll(/\/free\/\d+/g)].map(([path]) => path);
const pathsFrom = (first: number, count: number): string[] => {
  return Array.from({ length: count }, (_, index) => `/free/${first + index}`);
};

test("requests behind as many as may be owed an answer are for another connection", async () => {
  const shop = await heldShop();
  const client = new RawClient(
    shop.port,
    pathsFrom(0, MAX_OWED_ANSWERS + 4)
      .map(ask)
      .join(""),
  );
  const answered = pathsFrom(0, MAX_OWED_ANSWERS);
  await expect.poll(() => shop.paths.toSorted(), PATIENT).toEqual(answered.toSorted());
  // What comes later is not read either.
  client.socket.write(ask("/free/100"));
  shop.release();
  const { text, reset } = await client.closed;
  expect(reset).toBe(false);
  expect(bodiesIn(text)).toEqual(answered);
  expect(text.match(/connection: close/gi)).toHaveLength(1);
  expect(shop.paths).toHaveLength(MAX_OWED_ANSWERS);
});

test("as many as are answered in time come on one connection", async () => {
  const shop = await heldShop();
  shop.release();
  const client = new RawClient(shop.port);
  const few = MAX_OWED_ANSWERS - 1;
  for (let first = 0; first < 5 * few; first += few) {
    const paths = pathsFrom(first, few);
    client.socket.write(paths.map(ask).join(""));
    expect(bodiesIn(await client.until(`${paths.at(-1)}`)).slice(first)).toEqual(paths);
  }
  expect(client.socket.destroyed).toBe(false);
});

test.each([
  ["whole ones", ask("/free")],
  ["what is answered at once", ask("/")],
  ["some that node refuses itself", "GET /free HTTP/1.1\r\n\r\n"],
  ["some that ask for an upgrade", H2C],
])("of a flood of requests no more are read: %s", async (_name, request) => {
  const shop = await heldShop();
  const client = new RawClient(shop.port, ask("/free/0"));
  await expect.poll(() => shop.paths, PATIENT).toEqual(["/free/0"]);
  client.socket.write(request.repeat(FLOOD));
  await expect.poll(() => shop.read.length, PATIENT).toBeGreaterThan(1);
  // The next connection is read after that one.
  const next = new RawClient(shop.port, ask("/"));
  await next.until("402");
  expect(shop.read.length).toBeLessThanOrEqual(MAX_OWED_ANSWERS + 1);
  shop.release();
  expect((await client.closed).text).toContain("/free/0");
});

test("behind a first request that node refuses itself none is read", async () => {
  const shop = await heldShop();
  const client = new RawClient(shop.port, "GET /free HTTP/1.1\r\n\r\n".repeat(FLOOD));
  expect((await client.closed).text).toContain("400 Bad Request");
  expect(shop.read).toHaveLength(1);
});

test("a connection ends at once whose last request has a body that cannot be read", async () => {
  const shop = await heldShop();
  const [last = "", ...earlier] = pathsFrom(0, MAX_OWED_ANSWERS);
  const upload = ask(last)
    .replace("GET", "POST")
    .replace("Host", "Transfer-Encoding: chunked\r\nHost");
  const client = new RawClient(shop.port, `${earlier.map(ask).join("")}${upload}1\r\na\r\n`);
  await expect.poll(() => shop.paths, PATIENT).toHaveLength(MAX_OWED_ANSWERS);
  shop.release(last);
  await expect.poll(() => shop.gateway.work.inFlight, PATIENT).toBe(1);
  client.socket.write("junk\r\n");
  const { text } = await client.closed;
  expect(bodiesIn(text)).toEqual(earlier);
  expect(text).not.toContain("408");
});

test("a connection of HTTP/1.0 is noted only as long as an answer is under way on it", async () => {
  const old = new Set<Socket>();
  let noted = 0;
  const server = createServer();
  const serve: RequestListener = (_request, response) => {
    noted = old.size;
    response.end();
  };
  answerInTurn(server, { serve }, { table: new ConnectionTable(1), old });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const ask = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
  const client = new RawClient((server.address() as AddressInfo).port, ask);
  await client.until("200 OK");
  expect(noted).toBe(1);
  await expect.poll(() => old.size, PATIENT).toBe(0);
  expect(client.socket.destroyed).toBe(false);
});

test("an answer that is broken off before its turn is cut when that comes", async () => {
  const shop = await heldShop();
  const client = new RawClient(shop.port, ask("/free/0") + ask("/free/broken"));
  await expect.poll(() => shop.paths.length, PATIENT).toBe(2);
  // The first waits for its backend.
  await expect.poll(() => shop.gateway.work.inFlight, PATIENT).toBe(1);
  shop.release();
  const { text } = await client.closed;
  expect(bodiesIn(text)).toEqual(["/free/0"]);
  expect(text.endsWith("/free/0")).toBe(true);
});

test("what cannot be read behind them costs nothing, however long it comes", async () => {
  const shop = await heldShop();
  const client = new RawClient(shop.port, ask("/free/0"));
  await expect.poll(() => shop.paths, PATIENT).toEqual(["/free/0"]);
  const [socket] = shop.read;
  const listeners = (): number[] => [
    socket?.listenerCount("error") ?? 0,
    socket?.listenerCount("close") ?? 0,
  ];
  const junk = async (): Promise<void> => {
    const before = socket?.bytesRead ?? 0;
    client.socket.write("\0junk");
    await expect.poll(() => (socket?.bytesRead ?? 0) > before, PATIENT).toBe(true);
  };
  await junk();
  await junk();
  const before = listeners();
  for (let times = 0; times < 5; times += 1) await junk();
  expect(listeners()).toEqual(before);
  shop.release();
  expect((await client.closed).text).toContain("/free/0");
});

describe.each([
  ["a WebSocket", 20, WEBSOCKET],
  ["a tunnel", 20, "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"],
  ["another protocol, behind as many as may be owed", MAX_OWED_ANSWERS, H2C],
])("of a client that asks for %s behind others", (_name, count, behind) => {
  test("the places are free again when it leaves", async () => {
    const shop = await heldShop();
    const client = new RawClient(shop.port, pathsFrom(0, count).map(ask).join("") + behind);
    await expect.poll(() => shop.gateway.work.places.taken, PATIENT).toBe(count);
    client.socket.resetAndDestroy();
    await expect.poll(() => shop.gateway.work.places.taken, PATIENT).toBe(0);
  });

  test("the others are answered whole, however large, and it is not", async () => {
    const shop = await heldShop();
    const text =
      ask("/free/large") +
      pathsFrom(1, count - 1)
        .map(ask)
        .join("") +
      behind;
    const client = new RawClient(shop.port, text);
    await expect.poll(() => shop.paths.length, PATIENT).toBe(count);
    shop.release();
    const { text: told, reset } = await client.closed;
    expect(reset).toBe(false);
    expect(told.split("HTTP/1.1 200")).toHaveLength(count + 1);
    expect(told.split("x").length - 1).toBe(LARGE.length);
    expect(shop.paths).toHaveLength(count);
  });
});
