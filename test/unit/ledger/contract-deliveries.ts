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
  CALLER,
  CUT_OFF,
  keep,
  OTHER_TARGET,
  SETTLEMENT,
  TARGET,
  termsOf,
  UNANSWERED,
  UNSENT,
  word,
  replayed,
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
      expect(await ledger.step(key, { kind: "delivering" })).toBe(true);
      await ledger.step(key, { kind: "undelivered", broken: UNSENT });
      await ledger.step(key, { kind: "undelivered", broken: UNSENT });
    }
    expect(await ledger.step(key, { kind: "claim", terms: termsOf(payment) })).toMatchObject({
      attempts: 0,
    });
    for (let attempt = 1; attempt <= MAX_DELIVERY_ATTEMPTS; attempt += 1) {
      expect(await ledger.step(key, { kind: "delivering" })).toBe(true);
      await ledger.step(key, { kind: "undelivered", broken: UNANSWERED });
      await ledger.step(key, { kind: "undelivered", broken: UNSENT });
    }
    expect(await ledger.step(key, { kind: "delivering" })).toBe(false);
  });

  it("delivers no second target once one's answer had begun, and the first one again", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "served");
    const elsewhere = termsOf(payment, { target: OTHER_TARGET });
    const spent = { kind: "spent", delivered: false, transaction };
    expect(await ledger.step(key, { kind: "claim", terms: elsewhere })).toEqual(spent);
    expect(await ledger.step(key, { kind: "delivering" })).toBe(true);
    await ledger.step(key, { kind: "undelivered", broken: { ...CUT_OFF, served: OTHER_TARGET } });
    expect(await ledger.step(key, { kind: "claim", terms: elsewhere })).toEqual(spent);
    expect(await ledger.step(key, { kind: "claim", terms: termsOf(payment) })).toMatchObject({
      kind: "settled",
      attempts: 2,
    });
  });

  it("keeps the target that was served when later deliveries have no answer", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "served");
    await ledger.step(key, { kind: "delivering" });
    await ledger.step(key, { kind: "undelivered", broken: UNANSWERED });
    expect(
      await word(
        ledger.step(key, { kind: "claim", terms: termsOf(payment, { target: OTHER_TARGET }) }),
      ),
    ).toBe("spent");
  });

  it("tells what is delivered from what is owed, and the transaction that paid", async () => {
    const { ledger } = place();
    const [sold, owed] = [examplePayment(10), examplePayment(11)];
    await bring(ledger, sold, "delivered");
    await bring(ledger, owed, "exhausted");
    const spent = { kind: "spent", delivered: true, transaction };
    expect(await ledger.step(sold.key, { kind: "claim", terms: termsOf(sold) })).toEqual(spent);
    const exhausted = { kind: "exhausted", transaction, isRenewable: true };
    expect(await ledger.step(owed.key, { kind: "claim", terms: termsOf(owed) })).toEqual(exhausted);
  });

  describe("gives a kept answer again", () => {
    it("as it was, byte for byte, so many times and no more", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "kept");
      for (let replay = 1; replay <= MAX_REPLAYS; replay += 1) {
        expect(await ledger.step(key, { kind: "claim", terms: termsOf(payment) })).toEqual({
          kind: "sold",
          isKept: true,
          idempotencyKey: CALLER,
          settlement: SETTLEMENT,
        });
        const given = await replayed(ledger, key);
        expect({ ...given, body: [...(given?.body ?? [])] }).toEqual({
          ...ANSWER,
          body: [...ANSWER.body],
        });
      }
      expect(await replayed(ledger, key)).toBeUndefined();
      expect(await ledger.step(key, { kind: "claim", terms: termsOf(payment) })).toEqual({
        kind: "spent",
        delivered: true,
        transaction,
      });
    });

    it("of any number of concurrent callers to so many", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "kept");
      const given = await Promise.all(Array.from({ length: 10 }, () => replayed(ledger, key)));
      expect(given.filter((answer) => answer !== undefined)).toHaveLength(MAX_REPLAYS);
    });

    it("until its time is over", async () => {
      const { ledger, time } = place();
      await bring(ledger, payment, "kept");
      time.nowMs += REPLAY_MS - 1;
      expect(await replayed(ledger, key)).toBeDefined();
      time.nowMs += 1;
      expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
        "spent",
      );
      expect(await replayed(ledger, key)).toBeUndefined();
      await ledger.upkeep.reap();
      // Not for a clock that is set back, either: it is gone.
      time.nowMs -= REPLAY_MS;
      expect(await replayed(ledger, key)).toBeUndefined();
    });

    it("to an identical request only, and a refusal costs nothing", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "kept");
      for (let attempt = 0; attempt < 2 * MAX_REPLAYS; attempt += 1) {
        expect(await replayed(ledger, key, { ...ASKED, target: OTHER_TARGET })).toBeUndefined();
        expect(
          await replayed(ledger, key, { ...ASKED, bodyHash: "cd".repeat(32) }),
        ).toBeUndefined();
      }
      expect(await replayed(ledger, key)).toBeDefined();
      expect(await replayed(ledger, examplePayment(2).key)).toBeUndefined();
    });

    it("of the delivery that ended first", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "delivering");
      await keep(ledger, payment);
      const other = { ...ANSWER, status: 206 };
      await ledger.step(key, {
        kind: "delivered",
        sold: { ...ASKED, bodyHash: "cd".repeat(32), response: other },
      });
      expect(await replayed(ledger, key)).toMatchObject({
        status: 200,
      });
    });

    it("of the largest size that is kept, empty ones too, and none above it", async () => {
      const { ledger } = place();
      for (const [size, kind] of [
        [0, "sold"],
        [MAX_STORED_BODY_BYTES, "sold"],
        [MAX_STORED_BODY_BYTES + 1, "spent"],
      ] as const) {
        const each = examplePayment(size);
        const body = new Uint8Array(size).fill(7);
        await bring(ledger, each, "delivering");
        await ledger.step(each.key, {
          kind: "delivered",
          sold: { ...ASKED, response: { ...ANSWER, body } },
        });
        expect(await word(ledger.step(each.key, { kind: "claim", terms: termsOf(each) }))).toBe(
          kind,
        );
        const given = await replayed(ledger, each.key);
        expect(given?.body.byteLength).toBe(kind === "spent" ? undefined : size);
      }
    });

    it("of the target that was asked for last, where none had begun before", async () => {
      const { ledger } = place();
      await bring(ledger, payment, "retried");
      await ledger.step(key, { kind: "delivering" });
      await ledger.step(key, {
        kind: "delivered",
        sold: { ...ASKED, target: OTHER_TARGET, response: ANSWER },
      });
      const elsewhere = termsOf(payment, { target: OTHER_TARGET });
      expect(await word(ledger.step(key, { kind: "claim", terms: elsewhere }))).toBe("sold");
      expect(
        await word(
          ledger.step(key, { kind: "claim", terms: termsOf(payment, { target: TARGET }) }),
        ),
      ).toBe("spent");
    });

    it("after a restart", async () => {
      await bring(place().ledger, payment, "kept");
      const next = await place().restart("second");
      expect(await replayed(next, key)).toMatchObject({
        status: ANSWER.status,
      });
    });
  });
}
