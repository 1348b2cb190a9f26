/**
 * The keep-alive race: a backend that closes idle connections at the very time at which they are used again.
 * And what is left of requests that were given up: nothing. More with `COINSLOT_RACE_RUNS=20000`.
 */
import { PassThrough } from "node:stream";
import type { Socket } from "node:net";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { onHead, rawBackend } from "../../integration/gateway/stage.ts";
import { Dice } from "./mutated-answers.ts";
import { ask, dispatch, openPool, until } from "./pool-stage.ts";

const RUNS = Number(process.env["COINSLOT_RACE_RUNS"] ?? "1500");
const AT_ONCE = 32;
const PATIENCE_MS = 20_000 + RUNS * 10;

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

async function atOnce(work: () => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe("a backend that closes idle connections as they are used again", () => {
  test("fails no safe request", { timeout: PATIENCE_MS }, async () => {
    const dice = new Dice(1);
    let [opened, lost] = [0, 0];
    const origin = await rawBackend((socket) => {
      opened += 1;
      let requests = 0;
      let isClosed = false;
      // Right after an answer, or about when the next request may be on its way.
      const close = (): void => {
        isClosed = true;
        if (dice.chance(0.5)) socket.destroy();
        else socket.resetAndDestroy();
      };
      onHead(socket, () => {
        requests += 1;
        if (isClosed) return;
        // This is what the race is about: the request has arrived, and the connection ends.
        if (requests > 1 && dice.chance(0.2)) {
          lost += 1;
          close();
          return;
        }
        socket.write(ok);
        const chance = dice.fraction();
        if (chance < 0.2) setImmediate(close);
        else if (chance < 0.6) setTimeout(close, dice.below(3));
      });
    });
    const pool = openPool(origin, { connections: 100, queue: 100 });
    const failed: string[] = [];
    let left = RUNS;
    await atOnce(async () => {
      for (; left > 0; left -= 1) {
        const method = dice.of(["GET", "GET", "OPTIONS"] as const);
        const course = await ask(pool, { method });
        if (course.fault !== null || course.body !== "hi") failed.push(String(course.error));
        if (dice.chance(0.5)) await pause(dice.below(3));
      }
    });
    expect(failed).toEqual([]);
    expect(lost).toBeGreaterThan(RUNS / 50);
    expect(opened).toBeLessThan(RUNS);
  });
});

describe("requests that are given up", () => {
  test("leave no connection, timer or listener behind", { timeout: PATIENCE_MS }, async () => {
    const dice = new Dice(2);
    const sockets = new Set<Socket>();
    const origin = await rawBackend((socket) => {
      sockets.add(socket);
      socket.once("close", () => sockets.delete(socket));
      socket.on("data", () => {
        const chance = dice.fraction();
        if (chance < 0.3) socket.write(ok);
        else if (chance < 0.6) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart");
      });
    });
    const timers = watchTimers();
    const pool = openPool(origin, { connections: 20, queue: 50 });
    const ended: string[] = [];
    const leaking: string[] = [];
    let left = RUNS;
    const giveUp = async (): Promise<void> => {
      const body = dice.chance(0.3) ? new PassThrough() : null;
      const request = body === null ? {} : { method: "POST", body };
      const course = dispatch(pool, { ...request, fresh: dice.chance(0.1) });
      if (dice.chance(0.8)) body?.write("some");
      const held = await course.started;
      if (dice.chance(0.8)) await pause(dice.below(3));
      if (dice.chance(0.2)) held.pause();
      held.abort(new Error("given up"));
      const { fault } = await course.ended;
      ended.push(fault ?? "answered");
      if (body !== null) leaking.push(...listened(body));
    };
    await atOnce(async () => {
      for (; left > 0; left -= 1) await giveUp();
    });
    expect([...new Set(ended)].sort()).toEqual(["answered", "given up"]);
    expect(ended.filter((each) => each === "given up").length).toBeGreaterThan(RUNS / 4);
    expect(leaking).toEqual([]);
    await pool.close();
    expect(pool.counts).toEqual({ open: 0, idle: 0, waiting: 0 });
    await until(() => sockets.size === 0);
    await until(() => !process.getActiveResourcesInfo().includes("TCPSocketWrap"));
    expect(timers.started.length).toBeGreaterThan(0);
    expect(timers.stopped).toEqual(timers.started);
  });
});

/** The events of a body that somebody still listens to. */
function listened(body: PassThrough): string[] {
  return ["data", "end", "close"].filter((event) => body.listenerCount(event) > 0);
}

/** The repeating timers of this process from here on. */
function watchTimers() {
  const [start, stop] = [
    vi.spyOn(globalThis, "setInterval"),
    vi.spyOn(globalThis, "clearInterval"),
  ];
  onTestFinished(() => void vi.restoreAllMocks());
  return {
    get started(): unknown[] {
      return start.mock.results.map(({ value }) => value as unknown);
    },
    get stopped(): unknown[] {
      return stop.mock.calls.map(([timer]) => timer);
    },
  };
}
