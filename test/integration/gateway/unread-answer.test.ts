/** Answers that their clients do not take, and those that only look as if: slow ones, quiet ones, tunnels. */
import type { ServerResponse } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { MAX_OWED_ANSWERS } from "../../../src/gateway/listener/answers-in-turn.ts";
import { group, metric, type Group } from "./backend-stage.ts";
import { openSecureShop, PATIENT } from "./listener/secure-stage.ts";
import { WireClient, requestLines } from "./listener/http2-wire.ts";
import { backend, onHead, rawBackend, RawClient } from "./stage.ts";

const IDLE_MS = 300;
const MIB = 1024 * 1024;
/** More than all buffers on the way hold. */
const LARGE = Buffer.alloc(32 * MIB, "a");

/** So much of it is sent at a time by `/free/piece`. */
const PIECE = 600_000;

const ask = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: shop.example\r\n\r\n`;

interface Stage extends Group {
  readonly origin: string;
  /** Of `/free/events`, by the order of their requests. */
  readonly streams: ServerResponse[];
  /** Answers whose connection to the backend was cut. */
  readonly cancelled: ServerResponse[];
}

async function open(answerIdleMs = IDLE_MS): Promise<Stage> {
  const streams: ServerResponse[] = [];
  const cancelled: ServerResponse[] = [];
  const origin = await backend((request, response) => {
    response.on("error", () => {});
    response.on("close", () => {
      if (!response.writableFinished) cancelled.push(response);
    });
    if (request.url === "/free/large") response.end(LARGE);
    else if (request.url === "/free/piece") response.end(LARGE.subarray(0, PIECE));
    else streams.push(response);
  });
  const opened = await group([{ origin }], { target: { answerIdleMs } });
  return { ...opened, origin, streams, cancelled };
}

/** What became of the exchanges, by result. */
async function results(stage: Stage): Promise<Record<string, number>> {
  const counted = await metric(stage, "coinslot_upstream_target_requests_total");
  const named = Object.entries(counted).map(([labels, count]) => {
    return [/result="([^"]*)"/.exec(labels)?.[1] ?? "", count] as const;
  });
  return Object.fromEntries(named);
}

describe("a client that takes nothing of its answer", () => {
  test("is cut, the backend told, and counted", async () => {
    const stage = await open();
    const client = new RawClient(stage.shop.port, ask("/free/large"));
    await client.until("aaa");
    client.socket.pause();
    await expect.poll(() => stage.cancelled.length, PATIENT).toBe(1);
    client.socket.resume();
    expect(await client.closed).toMatchObject({ reset: true });
    await expect.poll(() => results(stage)).toEqual({ unread: 1 });
  });

  test("is cut when the backend has no more of it, too", async () => {
    const stage = await open();
    const client = new RawClient(stage.shop.port, ask("/free/piece"));
    await client.until("aaa");
    client.socket.pause();
    // Each is whole in the gateway before the client has taken it.
    for (let times = 0; times < 300; times += 1) client.socket.write(ask("/free/piece"));
    await expect.poll(() => results(stage), PATIENT).toHaveProperty("unread");
    expect(stage.cancelled).toEqual([]);
    client.socket.resume();
    expect(await client.closed).toMatchObject({ reset: true });
  });

  test("over HTTP/2 loses its stream alone, and is counted", async () => {
    const stage = await open();
    const { port } = await openSecureShop("", { engine: stage.engine });
    const client = await WireClient.open(port);
    client.request(1, requestLines("/free/large"));
    expect(await client.resetOf(1)).not.toBe(0);
    await expect.poll(() => results(stage)).toEqual({ unread: 1 });
    client.request(3, requestLines("/priced"));
    expect(await client.outcome(3)).toBe("402");
  });

  test("and has left is counted as one that has left", async () => {
    const stage = await open();
    const client = new RawClient(stage.shop.port, ask("/free/large"));
    await client.until("aaa");
    client.socket.resetAndDestroy();
    await expect.poll(() => results(stage)).toEqual({ abandoned: 1 });
  });
});

describe("not cut is", () => {
  test("a client that takes its answer slowly", async () => {
    const stage = await open(1_000);
    const client = new RawClient(stage.shop.port, ask("/free/large"));
    const { socket } = client;
    // A mebibyte each time: a kernel tells a writer of room only when a third of what it keeps is gone.
    for (let taken = MIB; taken <= 25 * MIB; taken += MIB) {
      socket.resume();
      while (socket.bytesRead < taken) await new Promise((resolve) => socket.once("data", resolve));
      socket.pause();
      await pause(100);
    }
    socket.resume();
    await expect.poll(() => socket.bytesRead, PATIENT).toBeGreaterThan(LARGE.length);
    await expect.poll(() => results(stage)).toEqual({ answered: 1 });
  });

  test("a stream of events that has none, also behind a moment in which it was not read", async () => {
    const stage = await open();
    const client = new RawClient(stage.shop.port, ask("/free/events"));
    await expect.poll(() => stage.streams.length).toBe(1);
    const [stream] = stage.streams;
    stream?.write("data: 1\n\n");
    await client.until("data: 1");
    client.socket.pause();
    stream?.write(LARGE.subarray(0, 8 * MIB));
    await pause(IDLE_MS / 3);
    client.socket.resume();
    await expect.poll(() => client.socket.bytesRead, PATIENT).toBeGreaterThan(8 * MIB);
    await pause(4 * IDLE_MS);
    stream?.end("data: 2\n\n");
    await client.until("data: 2\n\n");
    await expect.poll(() => results(stage)).toEqual({ answered: 1 });
  });

  test("a client whose next answer takes long, behind others that it took late", async () => {
    const stage = await open();
    const client = new RawClient(stage.shop.port, ask("/free/piece"));
    await client.until("aaa");
    client.socket.pause();
    const count = MAX_OWED_ANSWERS - 1;
    client.socket.write(ask("/free/piece").repeat(count) + ask("/free/events"));
    await pause(IDLE_MS / 3);
    client.socket.resume();
    await expect.poll(() => stage.streams.length, PATIENT).toBe(1);
    await expect.poll(() => client.socket.bytesRead, PATIENT).toBeGreaterThan((count + 1) * PIECE);
    await pause(4 * IDLE_MS);
    stage.streams[0]?.end("the next");
    await client.until("the next");
    expect(await results(stage)).toEqual({ answered: count + 2 });
  });

  test("a tunnel in which nothing moves", async () => {
    const origin = await rawBackend((socket) => {
      onHead(socket, () => {
        const lines = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: a";
        socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines}\r\n\r\n`);
        setTimeout(() => socket.write("late"), 3 * IDLE_MS);
      });
    });
    const { shop } = await group([{ origin }], { target: { answerIdleMs: IDLE_MS } });
    const lines = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    const upgrade = `Connection: Upgrade\r\nUpgrade: websocket\r\n${lines}\r\n\r\n`;
    const client = new RawClient(shop.port, ask("/free").replace("\r\n\r\n", `\r\n${upgrade}`));
    await client.until("late");
  });
});
