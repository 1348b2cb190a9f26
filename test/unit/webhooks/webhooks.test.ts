/** What waits is signed, sent, and sent again: in order for each payment, and one receiver holds up no other. */
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  KEPT_FOR_MS,
  LONGEST_PAUSE_MS,
  TAKEN_FOR_MS,
  type OutboxMessage,
} from "../../../src/ledger/outbox.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { ATTEMPT_MS, type ReceiverSettings } from "../../../src/webhooks/receiver.ts";
import {
  FIRST_RETRY_MS,
  MAX_RETRY_MS,
  TRIED_FOR_MS,
  Webhooks,
} from "../../../src/webhooks/webhooks.ts";
import { EVENT_TYPES } from "../../../src/x402/event-type.ts";
import { MemoryMessages, MemoryOutbox } from "../../support/memory-outbox.ts";
import {
  QuickTime,
  SECRET,
  startWebhookReceiver,
  type WebhookReceiver,
} from "./webhook-receiver.ts";

const OTHER_SECRET = `whsec_${Buffer.alloc(24, 9).toString("base64")}`;

let time: QuickTime;
let outbox: MemoryOutbox;
let webhooks: Webhooks;
let metrics: Metrics;
/** Of the log. */
let lines: Record<string, unknown>[];
let closing: AsyncDisposableStack;

beforeEach(() => {
  time = new QuickTime();
  outbox = new MemoryOutbox(new MemoryMessages(), time);
  metrics = new Metrics("test");
  closing = new AsyncDisposableStack();
  lines = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
  const logger = createLogger({ level: "warn", format: "json", destination });
  const present = (data: string): string => data.replace("{", '{"presented":true,');
  webhooks = new Webhooks({ outbox, telemetry: { logger, metrics }, time, present });
  closing.defer(() => webhooks.stop());
});

afterEach(async () => closing.disposeAsync());

function settingsOf(name: string, { url }: { readonly url: string }, secrets = [SECRET]) {
  const hidden = secrets.map((secret) => ({ reveal: () => secret }));
  const settings: ReceiverSettings = { name, url, secrets: hidden, events: EVENT_TYPES };
  return settings;
}

/** Opens it for as long as the test lasts. */
async function receiver(
  ...given: Parameters<typeof startWebhookReceiver>
): Promise<WebhookReceiver> {
  return closing.use(await startWebhookReceiver(...given));
}

async function serve(...settings: readonly ReceiverSettings[]): Promise<void> {
  outbox.address(settings);
  await webhooks.serve(settings);
}

function happen(subject: string, number: number): void {
  outbox.add({ type: "payment.sold", subject, data: { subject, number } }, time.now());
}

async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (let look = 0; look < 1_000; look += 1) {
    if (await isSo()) return;
    await pause(5);
  }
  throw new Error("it never came to that");
}

async function stored(recipient = "shop"): Promise<readonly OutboxMessage[]> {
  return (await outbox.list({ recipient }, 1_000)).toSorted((one, other) => {
    return one.place - other.place;
  });
}

/** Resolves when the outbox was counted since, and what it says was told. */
async function counted(): Promise<void> {
  let looks = 0;
  const counts = outbox.counts.bind(outbox);
  outbox.counts = () => ((looks += 1), counts());
  await until(() => looks > 0);
  outbox.counts = counts;
  await new Promise(setImmediate);
}

const isOver = async (): Promise<boolean> =>
  (await stored()).every(({ state }) => state === "DELIVERED");

test("a message is signed with each secret, at the time of its attempt, under one id", async () => {
  let left = 2;
  const shop = await receiver(() => ((left -= 1) >= 0 ? 500 : 204));
  await serve(settingsOf("shop", shop, [OTHER_SECRET, SECRET]));
  happen("payment one", 1);
  const [written] = await stored();
  for (const attempts of [1, 2]) {
    await until(async () => (await stored())[0]?.error === "it answered 500");
    await until(() => shop.received.length === attempts);
    time.offsetMs += FIRST_RETRY_MS * 4;
  }
  await until(isOver);
  expect(shop.received).toHaveLength(3);
  for (const { id, type, timestamp, data, request } of shop.received) {
    expect({ id, type, timestamp, data }).toEqual({
      id: written?.id,
      type: "payment.sold",
      timestamp: new Date(written?.atMs ?? 0).toISOString(),
      data: { presented: true, subject: "payment one", number: 1 },
    });
    expect(request).toMatchObject({ method: "POST", url: "/hooks" });
    expect(request.headers).toMatchObject({
      "content-type": "application/json",
      "user-agent": "coinslot",
    });
    expect(String(request.headers["webhook-signature"]).split(" ")).toHaveLength(2);
  }
  const stamps = shop.received.map(({ request }) => Number(request.headers["webhook-timestamp"]));
  expect((stamps[2] ?? 0) - (stamps[0] ?? 0)).toBeGreaterThanOrEqual(8);
  const other = await receiver(() => 204, { secret: OTHER_SECRET });
  await serve(settingsOf("shop", other, [OTHER_SECRET, SECRET]));
  happen("payment two", 2);
  await until(isOver);
  expect(other.received).toHaveLength(1);
});

test("what a receiver with another secret gets is not taken for ours", async () => {
  const stranger = await receiver(() => 204, { secret: OTHER_SECRET });
  await serve(settingsOf("shop", stranger));
  happen("payment one", 1);
  await until(async () => (await stored())[0]?.error !== null);
  expect(stranger.received).toEqual([]);
  expect(await stored()).toMatchObject([{ state: "WAITING" }]);
});

test("of a receiver that fails half the time each message comes, and those of each payment in order", async () => {
  let seed = 11;
  const random = (): number => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  const shop = await receiver(() => (random() < 0.5 ? 503 : 200));
  await serve(settingsOf("shop", shop));
  for (let number = 0; number < 60; number += 1) happen(`payment ${number % 12}`, number);
  await until(async () => {
    time.offsetMs += 2_000;
    return isOver();
  });
  const taken = shop.received.filter(({ status }) => status === 200);
  expect(shop.received.length).toBeGreaterThan(taken.length);
  for (let payment = 0; payment < 12; payment += 1) {
    const numbers = taken.flatMap(({ data }) =>
      data["subject"] === `payment ${payment}` ? [Number(data["number"])] : [],
    );
    expect([...new Set(numbers)]).toEqual([0, 12, 24, 36, 48].map((first) => first + payment));
  }
});

test("a receiver that never answers holds up no other", async () => {
  const silent = await receiver(() => undefined);
  const shop = await receiver();
  await serve(settingsOf("silent", silent), settingsOf("shop", shop));
  for (let number = 0; number < 30; number += 1) happen(`payment ${number}`, number);
  await until(isOver);
  expect(shop.received).toHaveLength(30);
  await until(() => silent.received.length > 0);
  // What is broken off by us is due at once.
  await webhooks.serve([]);
  const waiting = await stored("silent");
  expect(waiting.every(({ state, dueMs }) => state === "WAITING" && dueMs <= time.now())).toBe(
    true,
  );
});

describe("what is not taken", () => {
  test.each([
    ["a redirect", 307, "it answered 307"],
    ["a fault", 500, "it answered 500"],
  ])("is sent again after %s", async (_, status, error) => {
    const elsewhere = await receiver();
    const shop = await receiver((_message, response) => {
      response.writeHead(status, { location: elsewhere.url }).end();
      return undefined;
    });
    await serve(settingsOf("shop", shop));
    happen("payment one", 1);
    await until(async () => (await stored())[0]?.error === error);
    expect(elsewhere.received).toEqual([]);
    const [message] = await stored();
    const pauseMs = (message?.dueMs ?? 0) - time.now();
    expect(pauseMs).toBeLessThanOrEqual(FIRST_RETRY_MS * 1.2);
  });

  test("is sent ever more seldom, and given up after days", async () => {
    const shop = await receiver(() => 500);
    const pauses: number[] = [];
    const given = outbox.given.bind(outbox);
    outbox.given = async (taker, endings) => {
      for (const { state, dueMs } of endings) {
        if (state !== "WAITING") continue;
        pauses.push(dueMs - time.now());
        time.offsetMs += dueMs - time.now();
      }
      await given(taker, endings);
    };
    await serve(settingsOf("shop", shop));
    happen("payment one", 1);
    await until(async () => (await stored())[0]?.state === "FAILED");
    expect(pauses.length).toBeGreaterThan(20);
    for (const [index, pauseMs] of pauses.entries()) {
      const wanted = Math.min(FIRST_RETRY_MS * 2 ** index, MAX_RETRY_MS);
      expect(pauseMs).toBeLessThanOrEqual(wanted * 1.2);
      expect(pauseMs).toBeGreaterThanOrEqual(wanted * 0.8 - 100);
    }
    expect(new Set(pauses.slice(-5)).size).toBe(5);
    expect(time.offsetMs).toBeGreaterThan(TRIED_FOR_MS - 1.2 * MAX_RETRY_MS);
    expect(time.offsetMs).toBeLessThanOrEqual(TRIED_FOR_MS);
    expect(await stored()).toMatchObject([{ state: "FAILED", error: expect.any(String) }]);
    const said = await metrics.registry.metrics();
    expect(said).toContain('coinslot_webhook_attempts_total{receiver="shop",result="given-up"} 1');
  });

  test("is not sent any more to who is gone, until he is served anew", async () => {
    let status = 410;
    const shop = await receiver(() => status);
    await serve(settingsOf("shop", shop));
    happen("payment one", 1);
    await until(async () => (await stored())[0]?.error === "it answered 410");
    time.offsetMs += 60_000;
    happen("payment two", 2);
    await pause(100);
    expect(shop.received).toHaveLength(1);
    status = 200;
    await serve(settingsOf("shop", shop));
    await until(isOver);
    expect(shop.received).toHaveLength(3);
  });
});

test("an attempt is over long before its message may be another's", () => {
  expect(2 * ATTEMPT_MS).toBeLessThanOrEqual(TAKEN_FOR_MS);
  expect(1.2 * MAX_RETRY_MS).toBeLessThan(LONGEST_PAUSE_MS);
});

test("what waits, has failed and was dropped is counted", async () => {
  const shop = await receiver(() => 500);
  await serve(settingsOf("shop", shop));
  happen("payment one", 1);
  time.offsetMs += 1_000;
  await until(async () => {
    const said = await metrics.registry.metrics();
    return /coinslot_webhook_oldest_seconds\{receiver="shop"\} [1-9]/.test(said);
  });
  const said = await metrics.registry.metrics();
  expect(said).toContain('coinslot_webhooks_waiting{receiver="shop"} 1');
  expect(said).toContain('coinslot_webhooks_failed{receiver="shop"} 0');
  expect(said).toContain('coinslot_webhook_attempts_total{receiver="shop",result="delivered"} 0');
  time.offsetMs += 30 * 86_400_000;
  // Unless it was given up before.
  await until(async () => (await stored()).length === 0);
  expect(await metrics.registry.metrics()).toMatch(/coinslot_webhooks_dropped_total [01]\b/);
  expect(await metrics.registry.metrics()).toMatch(/_waiting\{receiver="shop"\} [01]\b/);
});

test("of a receiver that is taken away nothing is told but once in the log, and what waited comes with it again", async () => {
  const [shop, other] = [await receiver(() => 500), await receiver()];
  await serve(settingsOf("shop", shop), settingsOf("other", other));
  happen("payment one", 1);
  const told = async (): Promise<string> => metrics.registry.metrics();
  await until(async () => (await told()).includes('coinslot_webhooks_waiting{receiver="shop"} 1'));
  for (const left of [[settingsOf("other", other)], []]) {
    await serve(...left);
    expect(await told()).not.toContain('receiver="shop"');
    await counted();
    expect(await told()).not.toContain('receiver="shop"');
  }
  const facts = { level: "warn", receiver: "shop", waiting: 1, failed: 0 };
  expect(lines.filter((line) => line["receiver"] === "shop")).toMatchObject([facts]);
  const again = await receiver();
  await serve(settingsOf("shop", again));
  time.offsetMs += 8 * FIRST_RETRY_MS;
  await until(isOver);
  expect(again.received).toHaveLength(1);
});

test("of receivers that are only stopped the log says nothing, though they were being counted", async () => {
  const shop = await receiver(() => 500);
  await serve(settingsOf("shop", shop));
  happen("payment one", 1);
  const counts = await outbox.counts();
  expect(counts).toMatchObject([{ recipient: "shop", waiting: 1 }]);
  const asked = Promise.withResolvers<void>();
  const told = Promise.withResolvers<typeof counts>();
  outbox.counts = () => (asked.resolve(), told.promise);
  await asked.promise;
  const stopped = webhooks.stop();
  told.resolve(counts);
  await stopped;
  expect(lines).toEqual([]);
});

test("what is too much goes in one go, and not a step in each minute", async () => {
  let steps = 0;
  outbox.tidy = async () => ({ dropped: 1, isMore: (steps += 1) < 5 });
  const shop = await receiver();
  await serve(settingsOf("shop", shop));
  await until(() => steps === 5);
  await until(async () =>
    (await metrics.registry.metrics()).includes("coinslot_webhooks_dropped_total 5"),
  );
});

test("what was written for receivers goes in time, also where there is none any more", async () => {
  const shop = await receiver(() => 500);
  outbox.address([settingsOf("shop", shop)]);
  happen("payment one", 1);
  time.offsetMs += KEPT_FOR_MS + 1_000;
  await serve();
  await until(async () => (await stored()).length === 0);
  expect(await metrics.registry.metrics()).not.toContain('receiver="shop"');
});

test("nobody is told anything by a configuration that comes when it is stopped", async () => {
  const take = vi.spyOn(outbox, "take");
  const shop = await receiver(() => 204);
  await webhooks.stop();
  await serve(settingsOf("shop", shop));
  expect(take).not.toHaveBeenCalled();
});

test.each([
  ["a large body", "x".repeat(1_000_000), true],
  ["a body that never ends", "x", false],
])("an answer of 2xx is taken, with %s", async (_, body, isEnded) => {
  time.attemptMs = 300;
  const shop = await receiver((_message, response) => {
    response.writeHead(200).write(body);
    if (isEnded) response.end();
    return undefined;
  });
  await serve(settingsOf("shop", shop));
  happen("payment one", 1);
  await until(isOver);
  expect(shop.received).toHaveLength(1);
});

test("what has waited for days is tried more than once before it is given up", async () => {
  let left = 3;
  const shop = await receiver(() => ((left -= 1) >= 0 ? 503 : 204));
  outbox.address([settingsOf("shop", shop)]);
  time.offsetMs = -TRIED_FOR_MS - 1_000;
  happen("payment one", 1);
  time.offsetMs = 0;
  await serve(settingsOf("shop", shop));
  await until(async () => {
    time.offsetMs += FIRST_RETRY_MS;
    const [message] = await stored();
    return message !== undefined && message.state !== "WAITING";
  });
  expect(await stored()).toMatchObject([{ state: "DELIVERED", attempts: 4 }]);
});
