import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { describe, expect, onTestFinished, test } from "vitest";
import { startRemoteRecovery } from "../../../src/facilitator/remote-recovery.ts";
import { LedgerUnavailable } from "../../../src/ledger/ledger.ts";
import type { Confirmation, Observer } from "../../../src/mechanism/mechanism.ts";
import { MemoryLedger, MemoryStore } from "../../support/memory-ledger.ts";
import { examplePayment, type ExamplePayment } from "../ledger/example-payment.ts";
import { TRANSACTION } from "../payments/settlement/example-request.ts";
import { SteppedTime } from "../payments/settlement/stepped-time.ts";
import { handing, meshOver, nobody, refusal, scripted, settled, broken } from "./mesh-stage.ts";
import {
  CONFIRMED,
  confirmedBy,
  EXPIRED,
  HEAD,
  NO_CHAIN,
  scriptObserver,
  UNUSED,
} from "../payments/settlement/scripted-observer.ts";

/** Longer than any pause or margin. */
const LONG_MS = 700_000;
const DAY_MS = 86_400_000;

interface Setup {
  readonly facilitators: readonly { readonly url: string }[];
  readonly observer?: Observer;
  readonly store?: MemoryStore;
}

/** Payments are handed over by one life, which dies, and recovered by the next. */
async function stage({ facilitators, store = new MemoryStore(), ...setup }: Setup) {
  const time = new SteppedTime();
  const before = new MemoryLedger({ store, time, life: "before" });
  const hand = async (payment: ExamplePayment, facilitator: string): Promise<void> => {
    const { key, request } = payment;
    const idempotencyKey = `key of ${key}`;
    const terms = { binding: "GET /", target: "/", idempotencyKey, request, claimant: "" };
    await before.step(key, { kind: "claim", terms });
    await before.step(key, {
      kind: "handedOver",
      facilitator,
      head: setup.observer === undefined ? null : HEAD,
    });
  };
  const ledger = new MemoryLedger({ store, time, life: "now" });
  const { router, log, telemetry } = meshOver(facilitators, { ...setup, time });
  const start = () => {
    const recovery = startRemoteRecovery({ router, ledger, telemetry, time });
    onTestFinished(() => recovery.stop());
    return recovery;
  };
  const outcome = ({ key }: ExamplePayment) => ledger.outcome(key);
  return { time, router, ledger, before, hand, start, outcome, log };
}

const payment = examplePayment(1);
const SETTLED = { kind: "settled", settlement: { transaction: TRANSACTION } };

describe("a payment that was handed over and left", () => {
  test("is asked for at its own facilitator, with its own key, and settled", async () => {
    const [other, asked] = [await scripted(settled), await scripted(settled)];
    const { time, hand, start, outcome } = await stage({ facilitators: [other, asked] });
    await hand(payment, asked.url);
    start();
    await time.advance(LONG_MS);
    expect(await outcome(payment)).toMatchObject(SETTLED);
    expect(other.calls).toEqual([]);
    const [call] = asked.calls;
    expect(call?.headers["idempotency-key"]).toBe(`key of ${payment.key}`);
    expect(JSON.parse(call?.body ?? "")).toEqual({ x402Version: 1, ...payment.request });
    await time.advance(LONG_MS);
    expect(asked.calls.length).toBe(1);
  });

  test("is left alone while whoever handed it over may still be waiting", async () => {
    const asked = await scripted(settled);
    const { time, hand, start, outcome } = await stage({ facilitators: [asked] });
    await hand(payment, asked.url);
    start();
    // The call itself may take 10 seconds.
    for (let round = 0; round < 6; round += 1) await time.advance(5_000);
    expect(asked.calls).toEqual([]);
    await time.advance(5_000);
    expect(await outcome(payment)).toMatchObject(SETTLED);
  });

  test("is left alone while this process works on it", async () => {
    const heard = Promise.withResolvers<void>();
    const asked = await scripted({ raw: () => heard.resolve() });
    const { time, hand, start, router } = await stage({ facilitators: [asked] });
    await hand(payment, asked.url);
    const caller = new AbortController();
    const idempotencyKey = `key of ${payment.key}`;
    const working = onTheWire(router)
      .settle(payment.request, handing({ signal: caller.signal, idempotencyKey }))
      .catch(() => undefined);
    await heard.promise;
    start();
    for (let round = 0; round < 5; round += 1) await time.advance(LONG_MS);
    expect(asked.calls.length).toBe(1);
    caller.abort();
    await working;
    asked.reply = settled;
    await time.advance(LONG_MS);
    expect(asked.calls.length).toBe(2);
  });

  test("is not dropped any more by the process that handed it over, once it was asked for", async () => {
    const asked = await scripted(broken);
    const { time, hand, start, outcome, before } = await stage({ facilitators: [asked] });
    await hand(payment, asked.url);
    start();
    await time.advance(LONG_MS);
    // Its own call is refused unread, and it knows nothing of ours.
    await expect(before.step(payment.key, { kind: "released" })).rejects.toMatchObject({
      code: "LEDGER_CONFLICT",
    });
    asked.reply = settled;
    await time.advance(LONG_MS);
    expect(await outcome(payment)).toMatchObject(SETTLED);
  });

  test.each([
    ["the chain shows it", [UNUSED, CONFIRMED], SETTLED],
    ["it expired", [UNUSED, EXPIRED, EXPIRED], { kind: "failed" }],
  ])("is what the chain says, and nobody is asked, when %s", async (_, words, expected) => {
    const asked = await scripted(settled);
    const observer = scriptObserver(...words);
    const { time, hand, start, outcome } = await stage({ facilitators: [asked], observer });
    await hand(payment, asked.url);
    start();
    for (let round = 0; round < 4; round += 1) await time.advance(LONG_MS);
    expect(await outcome(payment)).toMatchObject(expected);
    expect(asked.calls).toEqual([]);
  });

  test("is looked for on the chain after a few seconds", async () => {
    const observer = scriptObserver(CONFIRMED);
    const { time, hand, start, outcome } = await stage({ facilitators: [], observer });
    await hand(payment, "https://gone.example");
    start();
    await time.asleep();
    expect(observer.looks).toEqual([]);
    await time.advance(10_000);
    expect(await outcome(payment)).toEqual({ kind: "held", transaction: TRANSACTION });
  });

  test("stays unresolved while its facilitator refuses the repeated request", async () => {
    const asked = await scripted(refusal("invalid_exact_evm_payload_authorization_valid_before"));
    const { time, hand, start, outcome } = await stage({ facilitators: [asked] });
    await hand(payment, asked.url);
    start();
    for (let round = 0; round < 3; round += 1) await time.advance(LONG_MS);
    expect(await outcome(payment)).toMatchObject({ kind: "pending" });
    expect(asked.calls.length).toBe(3);
  });

  test("stays unresolved, and is counted, while its facilitator is dead", async () => {
    const dead = await nobody();
    const { time, hand, start, outcome, ledger } = await stage({ facilitators: [dead] });
    await hand(payment, dead.url);
    start();
    for (let round = 0; round < 3; round += 1) await time.advance(LONG_MS);
    expect(await outcome(payment)).toMatchObject({ kind: "pending" });
    expect(await ledger.books.counts()).toMatchObject({ unresolved: 1 });
  });

  test("is asked for less and less often", async () => {
    const asked = await scripted(broken);
    const { time, hand, start } = await stage({ facilitators: [asked] });
    await hand(payment, asked.url);
    start();
    const askedAtMs: number[] = [];
    for (let round = 0; round < 60; round += 1) {
      await time.advance(5_000);
      if (asked.count("/settle") > askedAtMs.length) askedAtMs.push(5_000 * (round + 1));
    }
    // By the first question it becomes this process's own, which takes as long to age as any other.
    expect(askedAtMs).toEqual([35_000, 70_000, 80_000, 100_000, 140_000, 220_000]);
  });

  test("does not hold up the others", async () => {
    const [dead, alive] = [await nobody(), await scripted(settled)];
    const { time, hand, start, outcome } = await stage({ facilitators: [dead, alive] });
    const stuck = Array.from({ length: 520 }, (_, number) => examplePayment(100 + number));
    for (const each of stuck) await hand(each, dead.url);
    time.nowMs += 1;
    await hand(payment, alive.url);
    start();
    // In the first round it is beyond what is read; in the next one the others are known.
    await time.advance(LONG_MS);
    await time.advance(LONG_MS);
    expect(await outcome(payment)).toMatchObject(SETTLED);
  });
});

describe("a payment that was refused after its hand-over", () => {
  const FAILURE = { code: "insufficient_funds", detail: "said its facilitator" } as const;

  async function refused(...words: readonly (Confirmation | Error)[]) {
    const observer = scriptObserver(...words);
    const asked = await scripted(refusal("insufficient_funds"));
    const set = await stage({ facilitators: [asked], observer });
    await set.hand(payment, asked.url);
    await set.before.step(payment.key, { kind: "failed", failure: FAILURE });
    set.start();
    return { ...set, observer };
  }

  test("is settled when the chain shows it after the hand-over", async () => {
    const { time, outcome, observer } = await refused(UNUSED, NO_CHAIN, CONFIRMED);
    for (let round = 0; round < 10; round += 1) await time.advance(5_000);
    expect(await outcome(payment)).toMatchObject(SETTLED);
    expect(observer.heads).toEqual([HEAD, HEAD, HEAD]);
    await time.advance(LONG_MS);
    expect(observer.looks.length).toBe(3);
  });

  test("is held when it is in a transaction of nobody that we know", async () => {
    const { time, outcome, observer } = await refused(confirmedBy(undefined));
    for (let round = 0; round < 3; round += 1) await time.advance(5_000);
    const held = { kind: "held", transaction: TRANSACTION };
    expect(await outcome(payment)).toMatchObject(held);
    await time.advance(LONG_MS);
    expect(observer.looks.length).toBe(1);
  });

  test("is looked for less and less often", async () => {
    const { time, observer, outcome } = await refused(UNUSED);
    const lookedAtMs: number[] = [];
    for (let round = 0; round < 80; round += 1) {
      await time.advance(5_000);
      if (observer.looks.length > lookedAtMs.length) lookedAtMs.push(5_000 * (round + 1));
    }
    expect(lookedAtMs).toEqual([5_000, 15_000, 35_000, 75_000, 155_000, 315_000]);
    expect(await outcome(payment)).toMatchObject({ kind: "failed", failure: FAILURE });
  });

  test("is looked for for about a month, where its authorization never ends", async () => {
    const { time, observer, outcome } = await refused(UNUSED);
    const wait = async (days: number): Promise<number> => {
      for (let day = 0; day < days; day += 1) await time.advance(DAY_MS);
      return observer.looks.length;
    };
    const early = await wait(10);
    const later = await wait(50);
    expect(later).toBeGreaterThan(early);
    expect(await wait(365)).toBe(later);
    expect(await outcome(payment)).toMatchObject({ kind: "failed", failure: FAILURE });
  });

  test("is let alone when the chain says that nobody can settle it", async () => {
    const { time, observer, outcome, ledger } = await refused(UNUSED, EXPIRED, EXPIRED);
    for (let round = 0; round < 5; round += 1) await time.advance(LONG_MS);
    expect(observer.looks.length).toBe(3);
    expect(await outcome(payment)).toMatchObject({ kind: "failed", failure: FAILURE });
    expect(await ledger.doubted(1)).toEqual([]);
  });
});

describe("recovery of what was handed over", () => {
  test("goes on after a round that the ledger failed", async () => {
    const asked = await scripted(settled);
    const { time, hand, start, outcome, ledger, log } = await stage({ facilitators: [asked] });
    await hand(payment, asked.url);
    const read = ledger.handedOvers.bind(ledger);
    let isDown = true;
    ledger.handedOvers = (limit) =>
      isDown ? Promise.reject(new LedgerUnavailable("disk full")) : read(limit);
    start();
    await time.advance(LONG_MS);
    const line = { level: "error", err: { message: "disk full" } };
    expect(log).toMatchObject([line, line]);
    isDown = false;
    await time.advance(LONG_MS);
    expect(await outcome(payment)).toMatchObject(SETTLED);
  });

  test("ends the question that is being asked, and asks no other", async () => {
    const heard = Promise.withResolvers<void>();
    const asked = await scripted({ raw: () => heard.resolve() });
    const { time, hand, start } = await stage({ facilitators: [asked] });
    await hand(payment, asked.url);
    time.nowMs += LONG_MS;
    const recovery = start();
    await heard.promise;
    await recovery.stop();
    expect(asked.calls.length).toBe(1);
  });

  test("asks facilitators that failed whether they are there again", async () => {
    const asked = await scripted({ status: 500 });
    const { time, start, router } = await stage({ facilitators: [asked] });
    for (let count = 0; count < 3; count += 1) {
      await onTheWire(router)
        .verify(payment.request, handing().signal)
        .catch(() => undefined);
    }
    start();
    await time.asleep();
    expect(asked.count("/supported")).toBe(1);
    asked.reply = { status: 200, body: { kinds: [] } };
    await time.advance(5_000);
    await time.advance(5_000);
    expect(asked.count("/supported")).toBe(2);
  });
});
