/** Deliveries, and answers that are kept. */
import { describe, expect, it } from "vitest";
import {
  MAX_DELIVERY_ATTEMPTS,
  MAX_REPLAYS,
  MAX_STORED_BODY_BYTES,
  REPLAY_MS,
} from "../../../src/ledger/ledger.ts";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment } from "./example-payment.ts";
import {
  ANSWER,
  ASKED,
  bring,
  CUT_OFF,
  keep,
  OTHER_TARGET,
  SETTLEMENT,
  TARGET,
  termsOf,
  UNANSWERED,
  UNSENT,
  word,
} from "./ledger-driver.ts";

const { transaction } = SETTLEMENT;

export function describeDeliveries(open: OpenLedger): void {
  const place = eachTestIn(open);
  const payment = examplePayment(1);
  const { key } = payment;

  it("counts the attempts that reached the upstream, and gives the others back", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "settled");
    for (let attempt = 0; attempt < 2 * MAX_DELIVERY_ATTEMPTS; attempt += 1) {
      expect(await ledger.delivering(key)).toBe(true);
      await ledger.undelivered(key, UNSENT);
      await ledger.undelivered(key, UNSENT);
    }
    expect(await ledger.claim(key, termsOf(payment))).toMatchObject({ attempts: 0 });
    for (let attempt = 1; attempt <= MAX_DELIVERY_ATTEMPTS; attempt += 1) {
      expect(await ledger.delivering(key)).toBe(true);
      await ledger.undelivered(key, UNANSWERED);
      await ledger.undelivered(key, UNSENT);
    }
    expect(await ledger.delivering(key)).toBe(false);
  });

  it("delivers no second target once one's answer had begun, and the first one again", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "served");
    const elsewhere = termsOf(payment, { target: OTHER_TARGET });
    const spent = { kind: "spent", delivered: false, transaction };
    expect(await ledger.claim(key, elsewhere)).toEqual(spent);
    expect(await ledger.delivering(key)).toBe(true);
    await ledger.undelivered(key, { ...CUT_OFF, served: OTHER_TARGET });
    expect(await ledger.claim(key, elsewhere)).toEqual(spent);
    expect(await ledger.claim(key, termsOf(payment))).toMatchObject({
      kind: "settled",
      attempts: 2,
    });
  });

  it("keeps the target that was served when later deliveries have no answer", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "served");
    await ledger.delivering(key);
    await ledger.undelivered(key, UNANSWERED);
    expect(await word(ledger.claim(key, termsOf(payment, { target: OTHER_TARGET })))).toBe("spent");
  });

  it("tells what is delivered from what is owed, and the transaction that paid", async () => {
    const { ledger } = place();
    const [sold, owed] = [examplePayment(10), examplePayment(11)];
    await bring(ledger, sold, "delivered");
    await bring(ledger, owed, "exhausted");
    const spent = { kind: "spent", delivered: true, transaction };
    expect(await ledger.claim(sold.key, termsOf(sold))).toEqual(spent);
    const exhausted = { kind: "exhausted", transaction, isRenewable: true };
    expect(await ledger.claim(owed.key, termsOf(owed))).toEqual(exhausted);
  });

  describe("gives a kept answer again", () => {
    it("as it was, byte for byte, so many times and no more", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "kept");
      for (let replay = 1; replay <= MAX_REPLAYS; replay += 1) {
        expect(await ledger.claim(key, termsOf(payment))).toEqual({
          kind: "replayable",
          settlement: SETTLEMENT,
        });
        const given = await ledger.replay(key, ASKED);
        expect({ ...given, body: [...(given?.body ?? [])] }).toEqual({
          ...ANSWER,
          body: [...ANSWER.body],
        });
      }
      expect(await ledger.replay(key, ASKED)).toBeUndefined();
      expect(await ledger.claim(key, termsOf(payment))).toEqual({
        kind: "spent",
        delivered: true,
        transaction,
      });
    });

    it("of any number of concurrent callers to so many", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "kept");
      const given = await Promise.all(Array.from({ length: 10 }, () => ledger.replay(key, ASKED)));
      expect(given.filter((answer) => answer !== undefined)).toHaveLength(MAX_REPLAYS);
    });

    it("until its time is over", async () => {
      const { ledger, time } = place();
      await bring(ledger, payment, "kept");
      time.nowMs += REPLAY_MS - 1;
      expect(await ledger.replay(key, ASKED)).toBeDefined();
      time.nowMs += 1;
      expect(await word(ledger.claim(key, termsOf(payment)))).toBe("spent");
      expect(await ledger.replay(key, ASKED)).toBeUndefined();
      await ledger.reap();
      // Not for a clock that is set back, either: it is gone.
      time.nowMs -= REPLAY_MS;
      expect(await ledger.replay(key, ASKED)).toBeUndefined();
    });

    it("to an identical request only, and a refusal costs nothing", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "kept");
      for (let attempt = 0; attempt < 2 * MAX_REPLAYS; attempt += 1) {
        expect(await ledger.replay(key, { ...ASKED, target: OTHER_TARGET })).toBeUndefined();
        expect(await ledger.replay(key, { ...ASKED, bodyHash: "cd".repeat(32) })).toBeUndefined();
      }
      expect(await ledger.replay(key, ASKED)).toBeDefined();
      expect(await ledger.replay(examplePayment(2).key, ASKED)).toBeUndefined();
    });

    it("of the delivery that ended first", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "delivering");
      await keep(ledger, payment);
      const other = { ...ANSWER, status: 206 };
      await ledger.delivered(key, { ...ASKED, bodyHash: "cd".repeat(32), response: other });
      expect(await ledger.replay(key, ASKED)).toMatchObject({ status: 200 });
    });

    it("of the largest size that is kept, empty ones too, and none above it", async () => {
      const { ledger } = place();
      for (const [size, kind] of [
        [0, "replayable"],
        [MAX_STORED_BODY_BYTES, "replayable"],
        [MAX_STORED_BODY_BYTES + 1, "spent"],
      ] as const) {
        const each = examplePayment(size);
        const body = new Uint8Array(size).fill(7);
        await bring(ledger, each, "delivering");
        await ledger.delivered(each.key, { ...ASKED, response: { ...ANSWER, body } });
        expect(await word(ledger.claim(each.key, termsOf(each)))).toBe(kind);
        const given = await ledger.replay(each.key, ASKED);
        expect(given?.body.byteLength).toBe(kind === "spent" ? undefined : size);
      }
    });

    it("of the target that was asked for last, where none had begun before", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "retried");
      await ledger.delivering(key);
      await ledger.delivered(key, { ...ASKED, target: OTHER_TARGET, response: ANSWER });
      const elsewhere = termsOf(payment, { target: OTHER_TARGET });
      expect(await word(ledger.claim(key, elsewhere))).toBe("replayable");
      expect(await word(ledger.claim(key, termsOf(payment, { target: TARGET })))).toBe("spent");
    });

    it("after a restart", async () => {
      await bring(place().ledger, payment, "kept");
      const next = await place().restart("second");
      expect(await next.replay(key, ASKED)).toMatchObject({ status: ANSWER.status });
    });
  });
}
