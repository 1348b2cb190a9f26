import { setImmediate as turn } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { LedgerConflict, LedgerUnavailable } from "../../../src/ledger/ledger.ts";
import { systemTime } from "../../../src/time/time.ts";
import { Channel, type ChannelOptions, type Handler } from "../../../src/workers/channel.ts";
import { ChannelFault } from "../../../src/workers/fault.ts";
import { portPair } from "./port-pair.ts";

const SOON = { withinMs: 5_000 };

function pair(
  serves: Readonly<Record<string, Handler>>,
  options: Partial<ChannelOptions> = {},
): {
  readonly near: Channel;
  readonly far: Channel;
  readonly sent: () => number;
} {
  const [left, right] = portPair();
  const near = new Channel(left, { serves: {}, time: systemTime, ...options });
  const far = new Channel(right, { serves, time: systemTime });
  onTestFinished(() => near.close());
  return { near, far, sent: () => left.sent };
}

test("values cross whole, also big numbers, bytes and what is not there", async () => {
  const { near } = pair({ echo: (values) => values });
  const values = [10n ** 30n, new Uint8Array([0, 255]), undefined, null, { deep: [{ a: 1 }] }];
  expect(await near.call("echo", values, SOON)).toEqual(values);
});

test("answers find their calls in whatever order they come", async () => {
  const first = Promise.withResolvers<string>();
  const { near } = pair({ first: () => first.promise, second: () => "second" });
  const slow = near.call("first", [], SOON);
  expect(await near.call("second", [], SOON)).toBe("second");
  first.resolve("first");
  expect(await slow).toBe("first");
});

test("what is said in one turn crosses together", async () => {
  const { near, sent } = pair({ echo: ([value]) => value });
  const calls = Array.from({ length: 100 }, (_, index) => near.call("echo", [index], SOON));
  expect(await Promise.all(calls)).toEqual(Array.from({ length: 100 }, (_, index) => index));
  expect(sent()).toBe(1);
});

test("the faults of a ledger keep their class, others their name and code", async () => {
  const faults: Readonly<Record<string, Error>> = {
    conflict: new LedgerConflict("a conflict"),
    unavailable: new LedgerUnavailable("the disk is full"),
    system: Object.assign(new TypeError("odd"), { code: "EADDRINUSE" }),
  };
  const { near } = pair({
    fail: ([name]) => Promise.reject(faults[String(name)] ?? new Error()),
  });
  await expect(near.call("fail", ["conflict"], SOON)).rejects.toThrow(LedgerConflict);
  await expect(near.call("fail", ["unavailable"], SOON)).rejects.toThrow(LedgerUnavailable);
  await expect(near.call("fail", ["system"], SOON)).rejects.toMatchObject({
    message: "TypeError: odd",
    code: "EADDRINUSE",
  });
  await expect(near.call("toString", [], SOON)).rejects.toThrow("nothing is called toString here");
});

test("a call that is not answered in time is given up, and the other end is told", async () => {
  const told = Promise.withResolvers<void>();
  const { near } = pair({
    wait: (_values, signal) => {
      signal.addEventListener("abort", () => told.resolve());
      return new Promise(() => undefined);
    },
  });
  const call = near.call("wait", [], { withinMs: 1 });
  await expect(call).rejects.toMatchObject({ kind: "late" });
  await told.promise;
});

test("a caller who waits no longer is heard of, and gets the answer that comes of it", async () => {
  const { near } = pair({
    wait: async (_values, signal) => {
      while (!signal.aborted) await turn();
      return "given up";
    },
  });
  const waiting = new AbortController();
  const call = near.call("wait", [], { ...SOON, signal: waiting.signal });
  await turn();
  waiting.abort();
  expect(await call).toBe("given up");
});

test("more calls than are allowed at once are refused, and nothing is sent", async () => {
  const answer = Promise.withResolvers<string>();
  const { near } = pair({ wait: () => answer.promise }, { maxCalls: 2 });
  const calls = [near.call("wait", [], SOON), near.call("wait", [], SOON)];
  await expect(near.call("wait", [], SOON)).rejects.toMatchObject({ kind: "full" });
  answer.resolve("done");
  expect(await Promise.all(calls)).toEqual(["done", "done"]);
  expect(await near.call("wait", [], SOON)).toBe("done");
});

test("when the other end is gone every call ends, those that wait and those that come", async () => {
  const { near, far } = pair({ wait: () => new Promise(() => undefined) });
  const waiting = near.call("wait", [], SOON);
  far.close();
  await expect(waiting).rejects.toBeInstanceOf(ChannelFault);
  await near.closed;
  await expect(near.call("wait", [], SOON)).rejects.toMatchObject({ kind: "closed" });
});

test("one value that cannot cross spoils nothing but its own call", async () => {
  const { near } = pair({ echo: ([value]) => value, odd: () => () => "a function" });
  const spoilt = near.call("echo", [() => undefined], SOON);
  const spoiltAnswer = near.call("odd", [], SOON);
  const good = near.call("echo", ["good"], SOON);
  await expect(spoilt).rejects.toThrow("could not be cloned");
  await expect(spoiltAnswer).rejects.toThrow("could not be cloned");
  expect(await good).toBe("good");
});

test("a socket is passed behind all that was said before it", async () => {
  const heard: string[] = [];
  const { near, far } = pair({ note: ([text]) => void heard.push(String(text)) });
  const passed = Promise.withResolvers<unknown>();
  far.onPassed("socket", (handle) => {
    heard.push("socket");
    passed.resolve(handle);
  });
  const handle = { fd: 7 };
  void near.call("note", ["first"], SOON);
  near.pass("socket", handle);
  await near.call("note", ["last"], SOON);
  expect(await passed.promise).toBe(handle);
  expect(heard).toEqual(["first", "socket", "last"]);
});
