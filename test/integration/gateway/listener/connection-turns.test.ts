/**
 * In which order those begin of many connections that come at once, and what becomes of those that leave meanwhile.
 * The system hands them over one by one, but under load: here the server is given sockets that were accepted before.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import type { Server as HttpServer } from "node:http";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { connect as connectSecurely, createServer as createSecureServer } from "node:tls";
import { expect, onTestFinished, test, vi } from "vitest";
import { boundConnections } from "../../../../src/gateway/listener/bounded-connections.ts";
import { ConnectionTable } from "../../../../src/gateway/listener/connection-table.ts";
import { PER_TURN } from "../../../../src/gateway/turns.ts";
import { FIRST } from "../../../support/listener-tls.ts";
import { openShop } from "../shop.ts";
import { backend, send } from "../stage.ts";
import { PATIENT } from "./secure-stage.ts";

const STRANGER = "127.0.0.66";
const BUYER = "127.0.0.1";
/** More than one address may have before its further ones are last of all. */
const MANY = 200;
const REQUEST_START = "http.server.request.start";
const REQUEST = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

interface Started {
  readonly server: HttpServer;
  readonly socket: Socket;
}

/** The server of a shop's listener, and who has asked something of it. */
async function stage() {
  const { port } = await openShop(await backend((_request, response) => void response.end()));
  let server: HttpServer | undefined;
  const asked: (string | undefined)[] = [];
  const onStart = (message: unknown): void => {
    const started = message as Started;
    if (server === undefined && started.socket.localPort === port) server = started.server;
    else if (started.server === server) asked.push(started.socket.remoteAddress);
  };
  subscribe(REQUEST_START, onStart);
  onTestFinished(() => void unsubscribe(REQUEST_START, onStart));
  await send(port);
  const give = (sockets: readonly Socket[]): void => {
    for (const socket of sockets) server?.emit("connection", socket);
  };
  return { asked, give };
}

/** One from each address, its request sent. */
async function accepted(addresses: readonly string[]): Promise<readonly Socket[]> {
  const door = createServer();
  await new Promise<void>((resolve) => void door.listen(0, "127.0.0.1", resolve));
  const { port } = door.address() as AddressInfo;
  onTestFinished(() => void door.close());
  const sockets: Socket[] = [];
  for (const localAddress of addresses) {
    const come = once(door, "connection");
    const client = connect({ port, host: "127.0.0.1", localAddress });
    client.on("error", () => {}).write(REQUEST);
    const [socket] = (await come) as [Socket];
    onTestFinished(() => {
      client.destroy();
      socket.destroy();
    });
    sockets.push(socket);
  }
  return sockets;
}

const strangers = (count: number): readonly string[] =>
  Array.from({ length: count }, () => STRANGER);

test("those of an address that has few begin before those of one that has many", async () => {
  const { asked, give } = await stage();
  give(await accepted([...strangers(MANY), BUYER]));
  await expect.poll(() => asked.length, PATIENT).toBe(MANY + 1);
  // Behind those that began as they came, and perhaps the oldest of all.
  expect(asked.indexOf(BUYER)).toBeLessThan(3 * PER_TURN);
});

test("those that the system hands over one by one are gathered before the first begin", async () => {
  const { asked, give } = await stage();
  const sockets = await accepted([...strangers(MANY), BUYER]);
  // However slow the machine, it takes no longer than they may be gathered for.
  const clock = vi.spyOn(performance, "now").mockReturnValue(performance.now());
  onTestFinished(() => clock.mockRestore());
  for (const socket of sockets) {
    give([socket]);
    await nextTurn();
  }
  clock.mockRestore();
  await expect.poll(() => asked.length, PATIENT).toBe(MANY + 1);
  expect(asked.indexOf(BUYER)).toBeLessThan(PER_TURN);
});

test("one that breaks before its turn does no harm, and does not begin", async () => {
  const { asked, give } = await stage();
  const sockets = await accepted(strangers(PER_TURN + 2));
  give(sockets);
  const [breaking, last] = sockets.slice(PER_TURN);
  expect(breaking?.listenerCount("error")).toBe(1);
  // Nobody but who listens meanwhile keeps this from ending the process.
  breaking?.destroy(new Error("reset by its client"));
  await expect.poll(() => asked.length, PATIENT).toBe(PER_TURN + 1);
  await nextTurn();
  expect(Reflect.get(last ?? {}, "parser")).toBeDefined();
  expect(Reflect.get(breaking ?? {}, "parser")).toBeUndefined();
});

test("those that end as soon as they are open are closed, too", async () => {
  const { port } = await openShop(await backend((_request, response) => void response.end()));
  const told: string[] = [];
  const ends = Array.from({ length: MANY }, async () => {
    const client = connect({ port, host: "127.0.0.1" });
    onTestFinished(() => void client.destroy());
    client.on("data", (data) => told.push(data.toString()));
    await once(client.end(), "close");
  });
  await Promise.all(ends);
  // Whose end nobody has heard is told that his request did not come in time.
  expect(told).toEqual([]);
});

test("what TLS reads is told to whoever listens", async () => {
  const server = createSecureServer({ cert: FIRST.cert, key: FIRST.key });
  boundConnections(server, { table: new ConnectionTable(1, () => []), facts: {} });
  server.on("secureConnection", (socket) => {
    socket.on("data", (data) => void socket.end(data));
    onTestFinished(() => void socket.destroy());
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const client = connectSecurely({ port, host: "127.0.0.1", rejectUnauthorized: false });
  onTestFinished(() => void client.destroy());
  client.write(REQUEST);
  const [answer] = (await once(client, "data")) as [Buffer];
  expect(answer.toString()).toBe(REQUEST);
});
