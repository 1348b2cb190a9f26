/** What is remembered of a session's streams, and for how long. */
import { expect, test } from "vitest";
import { MAX_EVENT_BYTES, MAX_EVENTS, SessionEvents } from "../../../src/stdio/event-store.ts";

const message = (text: string) => {
  return { jsonrpc: "2.0" as const, method: "notifications/message", params: { text } };
};

async function replayed(events: SessionEvents, after: string): Promise<readonly string[]> {
  const ids: string[] = [];
  await events.replayEventsAfter(after, { send: async (id) => void ids.push(id) });
  return ids;
}

test("a stream is told what came after an event, and nothing of other streams", async () => {
  const events = new SessionEvents();
  const first = await events.storeEvent("one", message("1"));
  await events.storeEvent("other", message("2"));
  const third = await events.storeEvent("one", message("3"));
  expect(await events.getStreamIdForEventId(first)).toBe("one");
  expect(await replayed(events, first)).toEqual([third]);
});

test("the oldest events go, by their number", async () => {
  const events = new SessionEvents();
  const ids: string[] = [];
  for (let at = 0; at <= MAX_EVENTS; at += 1) {
    ids.push(await events.storeEvent("one", message("")));
  }
  expect(await events.getStreamIdForEventId(ids[0] ?? "")).toBeUndefined();
  expect(await events.getStreamIdForEventId(ids[1] ?? "")).toBe("one");
});

test("and by their bytes", async () => {
  const events = new SessionEvents();
  const third = "x".repeat(MAX_EVENT_BYTES / 3);
  const ids: string[] = [];
  for (let at = 0; at < 3; at += 1) ids.push(await events.storeEvent("one", message(third)));
  const known = await Promise.all(ids.map((id) => events.getStreamIdForEventId(id)));
  expect(known).toEqual([undefined, "one", "one"]);
});
