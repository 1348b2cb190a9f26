/** What becomes of payments that are over, and what the ledger still knows of them. */
import { describe, expect, it } from "vitest";
import type { PaymentDetail } from "../../../src/ledger/books.ts";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import { FAILED_FOR_MS } from "../../../src/ledger/sweep.ts";
import {
  MAX_USED_ELSEWHERE_PER_PAYER,
  type UsedElsewhere,
} from "../../../src/ledger/used-elsewhere.ts";
import { isEvmPayload, type PaymentKey } from "../../../src/x402/payment-key.ts";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn, type Place } from "./contract-place.ts";
import { examplePayment, PAYER, type ExamplePayment } from "./example-payment.ts";
import {
  ACCOUNT,
  bring,
  CALLER,
  FACILITATOR,
  FAILURE,
  leaseOf,
  NETWORK,
  OTHER_BINDING,
  OTHER_TARGET,
  SALE,
  SETTLEMENT,
  sign,
  signWith,
  sweep,
  termsOf,
  word,
  replayed,
} from "./ledger-driver.ts";
import type { StartState } from "./ledger-transitions.ts";

const DAY_MS = 86_400_000;
/** After the example payments' `validBefore`, by more than any network takes to be final. */
export const LATER_MS = 1_740_672_154_000 + 30 * DAY_MS;

/** Closes the submissions that carry a payment. */
export async function close(ledger: Ledger): Promise<void> {
  for (const { id } of await ledger.signing.unfinished(NETWORK, ACCOUNT)) {
    await ledger.signing.concluded(id, "CLOSED");
  }
}

/** One payer's payment that was used elsewhere, or somebody else's, a moment after the one before it. */
export async function note(
  { ledger, time }: Place,
  number: number,
  { payer = PAYER, binding = "GET /a" } = {},
): Promise<void> {
  const { key, request } = examplePayment(number);
  const { paymentPayload, ...rest } = request;
  const { payload } = paymentPayload;
  if (!isEvmPayload(payload)) throw new TypeError("an EVM payment");
  const authorization = { ...payload.authorization, from: payer };
  const presented = { ...paymentPayload, payload: { ...payload, authorization } };
  time.nowMs += 1;
  const asked = { binding, request: { ...rest, paymentPayload: presented } };
  await ledger.worker("a").noteUsedElsewhere(key, asked);
}

/** As the books tell it. */
function noted(number: number, seenMs: number): UsedElsewhere {
  const { key, request } = examplePayment(number);
  const { network, asset, payTo } = request.paymentRequirements;
  return { key, network, asset, amount: "10000", payer: PAYER, payTo, binding: "GET /a", seenMs };
}

export function describeSweeping(open: OpenLedger): void {
  const place = eachTestIn(open);
  const payment = examplePayment(1);
  const { key, request } = payment;

  /** Brought into a state, with its submission closed, and looked at long after. */
  const old = async (state: StartState, of: ExamplePayment = payment): Promise<Ledger> => {
    const { ledger, time } = place();
    await bring(ledger, of, state);
    await close(ledger);
    time.nowMs = LATER_MS;
    return ledger;
  };

  describe("sweeps", () => {
    it.each(["delivered", "kept"] as const)(
      "a payment that was %s, and still answers that it was used",
      async (state) => {
        const ledger = await old(state);
        expect(await sweep(ledger, LATER_MS)).toBe(1);
        expect(await ledger.books.list({ limit: 10 })).toEqual([]);
        expect(await ledger.books.show(key)).toBeUndefined();
        expect((await ledger.recall(request.paymentPayload, SALE)).request).toBeUndefined();
        const spent = { kind: "spent", delivered: true, transaction: SETTLEMENT.transaction };
        expect(await ledger.step(key, { kind: "claim", terms: termsOf(payment) })).toEqual(spent);
        const elsewhere = { binding: OTHER_BINDING, target: OTHER_TARGET };
        expect(
          await ledger.step(key, { kind: "claim", terms: termsOf(payment, elsewhere) }),
        ).toEqual(spent);
        expect(
          await ledger.worker("a").step(key, { kind: "claim", terms: termsOf(payment) }),
        ).toEqual(spent);
        expect(await ledger.step(key, { kind: "begin", request, caller: CALLER })).toEqual({
          kind: "taken",
        });
        expect(await ledger.step(key, { kind: "begin", request, caller: undefined })).toEqual({
          kind: "taken",
        });
        expect(
          await ledger.step(key, { kind: "begin", request, caller: { claimedUnder: CALLER } }),
        ).toEqual({
          kind: "taken",
        });
        expect(await ledger.outcome(key)).toEqual({ kind: "settled", settlement: SETTLEMENT });
        expect(await ledger.buried([examplePayment(2).key, key])).toEqual([key]);
        expect(await ledger.books.buried(key.toUpperCase())).toBe(SETTLEMENT.transaction);
        expect(await word(ledger.step(key, { kind: "delivering" }))).toBe("false");
        expect(await word(ledger.step(key, { kind: "settled", settlement: SETTLEMENT }))).toBe(
          "conflict",
        );
        expect(await ledger.books.list({ limit: 10 })).toEqual([]);
      },
    );

    it("with transactions of any form", async () => {
      const hash = `0x${"0a".repeat(32)}`;
      const texts = [hash, hash.toUpperCase(), "5".repeat(88), "x".repeat(31), "x".repeat(32)];
      const { ledger, time } = place();
      for (const [number, transaction] of texts.entries()) {
        const each = examplePayment(number);
        await bring(ledger, each, "signed");
        await ledger.step(each.key, {
          kind: "settled",
          settlement: { ...SETTLEMENT, transaction },
        });
        await ledger.step(each.key, { kind: "delivering" });
        await ledger.step(each.key, { kind: "delivered" });
      }
      await close(ledger);
      time.nowMs = LATER_MS;
      expect(await sweep(ledger, LATER_MS)).toBe(texts.length);
      for (const [number, transaction] of texts.entries()) {
        expect(await ledger.books.buried(examplePayment(number).key)).toBe(transaction);
      }
    });

    it.each([
      ["from our key", { isSent: true }],
      ["by other means", {}],
    ])("one that was paid back %s, and still answers so", async (_, how) => {
      const ledger = await old("exhausted");
      const { time } = place();
      const resolution = { verb: "refund", note: "", by: "operator", ...how } as const;
      await ledger.step(key, { kind: "resolve", resolution });
      const transfer = { ...examplePayment(101), idempotencyKey: "back", signedMs: 7 };
      const sending = { kind: "sending", attempt: 1, transfer, maxAtomic: 90_000n } as const;
      await ledger.step(key, { kind: "refund", to: sending });
      const refunded = { kind: "refunded", attempt: 1, transaction: "0xback" } as const;
      await ledger.step(key, { kind: "refund", to: refunded });
      const claim = { kind: "claim", terms: termsOf(payment) } as const;
      const before = await ledger.step(key, claim);
      expect(before).toMatchObject({ kind: "failed" });
      const outcome = await ledger.outcome(key);
      time.nowMs += DAY_MS;
      expect(await sweep(ledger, time.nowMs)).toBe(1);
      expect(await ledger.books.show(key)).toBeUndefined();
      expect(await ledger.step(key, claim)).toEqual(before);
      expect(await ledger.outcome(key)).toEqual(outcome);
      for (const caller of [CALLER, undefined]) {
        expect(await ledger.step(key, { kind: "begin", request, caller })).toEqual({
          kind: "taken",
        });
      }
      expect(await ledger.books.buried(key)).toBe(SETTLEMENT.transaction);
      expect(await ledger.books.list({ limit: 10 })).toEqual([]);
    });

    it("one that was settled for somebody else, whose caller gets the same answer again", async () => {
      const ledger = await old("begunHanded");
      await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
      place().time.nowMs += 1;
      expect(await sweep(ledger, LATER_MS + 1)).toBe(1);
      const settled = { kind: "settled", settlement: SETTLEMENT };
      expect(await ledger.step(key, { kind: "begin", request, caller: CALLER })).toEqual(settled);
      expect(await ledger.step(key, { kind: "begin", request, caller: "another key" })).toEqual({
        kind: "taken",
      });
      expect(await ledger.step(key, { kind: "begin", request, caller: undefined })).toEqual({
        kind: "taken",
      });
      expect(await ledger.outcome(key)).toEqual(settled);
      expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
        "spent",
      );
    });

    it.each(["failed", "claimfailed", "begunfailed"] as const)(
      "one that has failed (%s), of which nothing is left",
      async (state) => {
        const ledger = await old(state);
        expect(await sweep(ledger, LATER_MS)).toBe(1);
        expect(await ledger.buried([key])).toEqual([]);
        expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
          "granted",
        );
      },
    );

    it("none that has failed as long as its authorization could be used", async () => {
      const { ledger, time } = place();
      const validBeforeMs = 1_740_672_154_000;
      time.nowMs = validBeforeMs - DAY_MS;
      await bring(ledger, payment, "claimfailed");
      time.nowMs = validBeforeMs + DAY_MS;
      expect(await sweep(ledger, time.nowMs)).toBe(0);
      await ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
      expect(await word(ledger.step(key, { kind: "claim", terms: termsOf(payment) }))).toBe(
        "settled",
      );
    });

    it("one that has failed, a month later, however long its authorization could be used", async () => {
      const { ledger, time } = place();
      await bring(ledger, payment, "begunfailed");
      const failedMs = time.nowMs;
      time.nowMs = failedMs + FAILED_FOR_MS;
      expect(await sweep(ledger, time.nowMs)).toBe(0);
      time.nowMs += 1;
      expect(await sweep(ledger, time.nowMs)).toBe(1);
      // Nothing was sold for it: who shows it next pays with it.
      expect(await ledger.step(key, { kind: "begin", request, caller: CALLER })).toEqual({
        kind: "granted",
      });
    });

    it.each([
      ...(["claimed", "offered", "begun", "begunoffered", "begunHanded", "signed"] as const),
      ...(["handed", "handedsigned", "settled", "delivering", "retried", "served"] as const),
      "exhausted" as const,
    ])("never one that is %s", async (state) => {
      const ledger = await old(state);
      const before = await ledger.books.show(key);
      expect(await sweep(ledger, LATER_MS)).toBe(0);
      expect(await ledger.books.show(key)).toEqual(before);
    });

    it("none whose submission is not closed, and none that ended since", async () => {
      const { ledger, time } = place();
      await bring(ledger, payment, "delivered");
      const endedMs = time.nowMs;
      time.nowMs = LATER_MS;
      expect(await sweep(ledger, LATER_MS)).toBe(0);
      const [submission] = await ledger.signing.unfinished(NETWORK, ACCOUNT);
      await ledger.signing.concluded(submission?.id ?? "", "INCLUDED");
      expect(await sweep(ledger, LATER_MS)).toBe(0);
      await ledger.signing.concluded(submission?.id ?? "", "CLOSED");
      expect(await sweep(ledger, endedMs)).toBe(0);
      expect(await sweep(ledger, endedMs + 1)).toBe(1);
    });

    it("closed submissions with all their names, once they carry nothing", async () => {
      const { ledger, time } = place();
      const together = [examplePayment(1), examplePayment(2)];
      for (const each of together) await bring(ledger, each, "claimed");
      const { id } = await sign(ledger, together);
      const raised = signWith(0, ACCOUNT, 1);
      await ledger.signing.replaced(await leaseOf(ledger), id, raised);
      for (const each of together)
        await ledger.step(each.key, { kind: "settled", settlement: SETTLEMENT });
      await ledger.step(key, { kind: "delivering" });
      await ledger.step(key, { kind: "delivered" });
      await ledger.signing.concluded(id, "CLOSED");
      time.nowMs = LATER_MS;
      expect(await sweep(ledger, LATER_MS)).toBe(1);
      const other = together[1]?.key;
      expect((await ledger.books.show(raised.transaction))?.key).toBe(other);
      expect((await ledger.books.show(raised.transaction))?.submission?.id).toBe(id);
      await ledger.step(other as PaymentKey, { kind: "delivering" });
      await ledger.step(other as PaymentKey, { kind: "delivered" });
      expect(await sweep(ledger, LATER_MS + 1)).toBe(1);
      expect(await ledger.books.show(raised.transaction)).toBeUndefined();
      // The names are free: whatever is signed next may have them.
      const next = examplePayment(3);
      await bring(ledger, next, "claimed");
      const again = await ledger.signing.signed(
        [next.key],
        { ...(await leaseOf(ledger)), seed: 0 },
        (nonce) => {
          return { ...signWith(nonce), transaction: id };
        },
      );
      expect(again.id).toBe(id);
    });

    it("no submission that has left a payment behind which is not decided yet", async () => {
      const [failing, holding, moved] = [1, 2, 3].map((number) => examplePayment(number));
      if (!failing || !holding || !moved) throw new TypeError("three payments");
      const { ledger, time } = place();
      const together = [failing, holding, moved];
      for (const each of together) await bring(ledger, each, "claimed");
      const { id } = await sign(ledger, together);
      await ledger.step(moved.key, { kind: "settled", settlement: SETTLEMENT });
      await ledger.step(moved.key, { kind: "delivering" });
      await ledger.step(moved.key, { kind: "delivered" });
      for (const each of [failing, holding]) await ledger.step(each.key, { kind: "withdrawn" });
      await ledger.signing.concluded(id, "CLOSED");
      time.nowMs = LATER_MS;
      expect(await sweep(ledger, LATER_MS)).toBe(1);
      await ledger.step(failing.key, { kind: "failed", failure: FAILURE });
      await ledger.step(holding.key, { kind: "held", transaction: "0xbb" });
      expect(await ledger.books.show(failing.key)).toMatchObject({ submission: { id } });
      expect(await ledger.books.show(holding.key)).toMatchObject({ submission: { id } });
    });

    it("no such submission where the payment was handed over since", async () => {
      const { ledger, time } = place();
      await bring(ledger, payment, "public");
      await close(ledger);
      await ledger.step(key, { kind: "handedOver", facilitator: FACILITATOR });
      time.nowMs = LATER_MS;
      expect(await sweep(ledger, LATER_MS)).toBe(0);
      await ledger.step(key, { kind: "failed", failure: FAILURE });
      expect(await ledger.outcome(key)).toMatchObject({ kind: "failed" });
    });

    it(
      "everything in steps, however many there are, and skips what stays",
      { timeout: 60_000 },
      async () => {
        const { ledger, time } = place();
        for (let number = 0; number < 120; number += 1) {
          const state = number % 10 === 0 ? "claimed" : "claimfailed";
          await bring(ledger, examplePayment(number), state);
          time.nowMs += number % 3;
        }
        time.nowMs = LATER_MS;
        expect(await sweep(ledger, LATER_MS)).toBe(108);
        expect(await ledger.books.list({ limit: 300 })).toHaveLength(12);
        expect(await sweep(ledger, LATER_MS)).toBe(0);
      },
    );

    it("what was archived, and nothing where that failed", async () => {
      const ledger = await old("delivered");
      const before = await ledger.books.show(key);
      const full = new Error("the disk is full");
      const failing = sweep(ledger, LATER_MS, () => Promise.reject(full));
      await expect(failing).rejects.toBe(full);
      expect(await ledger.books.show(key)).toEqual(before);
      const archived: PaymentDetail[] = [];
      const archive = async (payments: readonly PaymentDetail[]): Promise<void> => {
        expect(await ledger.books.show(key)).toEqual(before);
        archived.push(...payments);
      };
      expect(await sweep(ledger, LATER_MS, archive)).toBe(1);
      expect(archived).toEqual([before]);
    });

    it("nothing that changes while it is archived", async () => {
      const ledger = await old("kept");
      place().time.nowMs = 1_700_000_000_000 + 1;
      const archive = async (): Promise<void> => {
        expect(await replayed(ledger, key)).toBeDefined();
      };
      expect(await sweep(ledger, LATER_MS, archive)).toBe(0);
      expect((await ledger.books.show(key))?.state).toBe("DELIVERED");
    });

    it("only once where two claim what is swept", async () => {
      const ledger = await old("delivered");
      const claims = Array.from({ length: 8 }, () =>
        ledger.step(key, { kind: "claim", terms: termsOf(payment) }),
      );
      const [swept, ...words] = await Promise.all([sweep(ledger, LATER_MS), ...claims.map(word)]);
      expect(swept).toBe(1);
      expect(new Set(words)).toEqual(new Set(["spent"]));
    });
  });

  describe("lists what has ended", () => {
    it("in the order of the claims, page by page, and nothing else", async () => {
      const { ledger, time } = place();
      const states = ["delivered", "settled", "claimfailed", "signed", "begunfailed"] as const;
      for (const [number, state] of states.entries()) {
        await bring(ledger, examplePayment(number), state);
        time.nowMs += number % 2;
      }
      const beforeMs = time.nowMs + 1;
      const all = await ledger.books.ended({ beforeMs, limit: 10 });
      expect(all.map((each) => each.key)).toEqual(
        [0, 2, 4].map((number) => examplePayment(number).key),
      );
      expect(all[0]?.events.length).toBeGreaterThan(3);
      const [first] = await ledger.books.ended({ beforeMs, limit: 1 });
      expect(await ledger.books.ended({ beforeMs, after: first, limit: 10 })).toEqual(all.slice(1));
      expect(await ledger.books.ended({ beforeMs: 1_700_000_000_000, limit: 10 })).toEqual([]);
    });
  });

  describe("remembers what was used elsewhere", () => {
    it("once, newest first, without a signature, for a while", async () => {
      const { ledger, time } = place();
      const startMs = time.nowMs;
      await note(place(), 1);
      await note(place(), 2);
      await note(place(), 1, { binding: "GET /b" });
      const [first, second] = [noted(1, startMs + 1), noted(2, startMs + 2)];
      expect(await ledger.books.usedElsewhere(10)).toEqual([second, first]);
      expect(await ledger.books.usedElsewhere(1)).toEqual([second]);
      await sweep(ledger, startMs + 2);
      expect(await ledger.books.usedElsewhere(10)).toEqual([second]);
    });

    it("the first few of each payer: nobody pushes out another", async () => {
      const { ledger } = place();
      await note(place(), 1, { payer: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C" });
      for (let number = 2; number < 20; number += 1) await note(place(), number);
      const kept = await ledger.books.usedElsewhere(100);
      expect(kept).toHaveLength(MAX_USED_ELSEWHERE_PER_PAYER + 1);
      expect(kept.at(-1)?.key).toBe(examplePayment(1).key);
    });
  });
}
