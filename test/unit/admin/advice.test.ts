import { describe, expect, test } from "vitest";
import { adviceOn, adviceOnRequest, needsOperator } from "../../../src/admin/advice.ts";
import type { PaymentSummary } from "../../../src/ledger/books.ts";
import type { RefundSummary } from "../../../src/ledger/ledger.ts";
import type { PaymentOutcome } from "../../../src/telemetry/metrics.ts";
import type { RequestEnd } from "../../../src/telemetry/timeline.ts";
import type { PaymentKey } from "../../../src/x402/payment-key.ts";

const failed: PaymentSummary = {
  key: "base/0x1/0x2/0x3" as PaymentKey,
  state: "FAILED",
  network: "base",
  asset: "0x1",
  amount: "10000",
  payer: "0x2",
  payTo: "0x4",
  binding: "GET /weather",
  target: "/weather",
  facilitator: null,
  transaction: null,
  heldTransaction: null,
  refund: null,
  isTransferBack: false,
  attempts: 0,
  renewableMs: 0,
  isLeft: false,
  keptUntilMs: null,
  repeatUntilMs: null,
  ledTo: null,
  isHeadOnly: false,
  failureCode: "insufficient_funds",
  failureDetail: "the payer holds 0",
  claimedMs: 0,
  updatedMs: 0,
};

const end = (outcome: PaymentOutcome, status = 402): RequestEnd => ({ outcome, status, ms: 1 });
const STATE = "invalid_transaction_state";
const paid = { ...failed, failureCode: null, failureDetail: null, transaction: "0x5" } as const;
const owed: PaymentSummary = { ...paid, state: "SETTLED", attempts: 3, isLeft: true };
const sold: PaymentSummary = { ...paid, state: "DELIVERED", attempts: 1 };
const NOW = Date.UTC(2026, 7, 1, 12);

describe("what to do", () => {
  test("about a refund is said by where it stands, and is the operator's once it has failed", () => {
    const refunded = (refund: Partial<RefundSummary>): PaymentSummary => ({
      ...failed,
      refund: {
        state: "ASKED",
        transaction: null,
        detail: null,
        transfer: null,
        creditsAtomic: null,
        ...refund,
      },
    });
    expect(adviceOn(refunded({}), NOW)).toMatch(/^to be refunded: /);
    const waiting = refunded({ state: "SENDING", detail: "it is blacklisted" });
    expect(adviceOn(waiting, NOW)).toMatch(
      /^being refunded: it is blacklisted\. .* nobody should pay it back by hand/,
    );
    expect(needsOperator(waiting, NOW)).toBe(false);
    const done = refunded({ state: "REFUNDED", transaction: "0x77" });
    expect(adviceOn(done, NOW)).toBe("refunded in 0x77: nothing is left to do");
    const over = refunded({ state: "FAILED", detail: "over the day's" });
    expect(adviceOn(over, NOW)).toContain(`--resolve ${failed.key}`);
    expect(adviceOn(over, NOW)).toContain("--refund --by-hand");
    expect(needsOperator(over, NOW)).toBe(true);
    const back = { ...failed, state: "SETTLED", binding: null, isTransferBack: true } as const;
    expect(adviceOn(back, NOW)).toBe("a refund, which has arrived: nothing is left to do");
  });

  test("about a refusal is the same for a request and for a payment in the ledger", () => {
    const said = adviceOnRequest(end("refused"), "insufficient_funds: the payer holds 0");
    expect(said).toMatch(/^the payer's account holds less/);
    expect(adviceOn(failed, 0)).toMatch(new RegExp(`no money moved.*The reason: ${said}$`));
  });

  test("is said of a payment that failed for a reason that is none of ours, too", () => {
    expect(adviceOn({ ...failed, failureCode: null }, 0)).toMatch(/the payment counts as paid$/);
  });

  test("follows from how a request ended where the client was told no code", () => {
    expect(adviceOnRequest(end("limited", 429), null)).toContain("limits.unpaidPerIp");
    expect(adviceOnRequest(end("challenged"), "X-PAYMENT header is required")).toMatch(
      /^nothing is paid/,
    );
    expect(adviceOnRequest(end("refused"), "constructor: x")).toMatch(/^nothing was charged/);
  });

  test.each([
    "the token refuses the transfer: Blacklistable: account is blacklisted",
    "the payer's or the payee's token account is frozen",
  ])(
    "about an account that its token's issuer has blocked is to pay from another one: %s",
    (detail) => {
      const said = adviceOnRequest(end("refused"), `${STATE}: ${detail}`);
      expect(said).toContain("a new signature of the same one changes nothing");
      const inLedger = adviceOn({ ...failed, failureCode: STATE, failureDetail: detail }, 0);
      expect(inLedger).toContain(said);
      expect(inLedger).not.toContain("has to sign a new payment");
    },
  );

  test.each([
    [402, "this payment was used before; sign a new one", "nothing was charged for it again"],
    [409, "paid in 0x1, and each attempt to deliver it has failed", "is paid already, or may be"],
    [402, "the simulated transfer runs out of gas", "once that is put right"],
    [402, "the token refuses the transfer: Pausable: paused", "before that ends"],
  ])(
    "about the one code for all of that is told by its sentence: %d %s",
    (status, detail, said) => {
      expect(adviceOnRequest(end("refused", status), `${STATE}: ${detail}`)).toContain(said);
    },
  );

  test("about a delivery without attempts is a new signature that is not charged, or the money back", () => {
    const said = adviceOn(owed, NOW);
    expect(said).toMatch(/signs a new payment: that is not charged, and brings what is owed/);
    expect(said).toContain(`--resolve ${owed.key}`);
    expect(said).toContain("--refund gives the money back");
    const late = adviceOn({ ...owed, renewableMs: NOW + 1_000 }, NOW);
    expect(late).toContain("bring more attempts from 2026-08-01 12:00:01 UTC on");
    expect(late).not.toContain("brings what is owed");
  });

  test("about a buyer who left says whether the answer is kept, and until when", () => {
    const kept = { ...sold, isLeft: true, keptUntilMs: NOW + 600_000 };
    expect(adviceOn(kept, NOW)).toContain("it is kept until 2026-08-01 12:10:00 UTC");
    expect(adviceOn(kept, NOW + 600_000)).toContain("none of it can be had again now");
    expect(adviceOn(sold, NOW, true)).toContain("none of it can be had again now");
    // He has come back for it since.
    expect(adviceOn({ ...kept, isLeft: false }, NOW, true)).toMatch(/nothing is left to do$/);
    expect(adviceOn(sold, NOW)).toMatch(/nothing is left to do$/);
  });

  test("about a buyer who left a download says until when it may be fetched again", () => {
    const download = { ...sold, isLeft: true, repeatUntilMs: NOW + 600_000 };
    const said = "it may be fetched again until 2026-08-01 12:10:00 UTC, as often as `repeat`";
    expect(adviceOn(download, NOW)).toContain(said);
    expect(adviceOn({ ...download, isLeft: false }, NOW, true)).toContain(said);
    expect(adviceOn({ ...download, isLeft: false }, NOW)).toMatch(/nothing is left to do$/);
    expect(adviceOn(download, NOW + 600_000)).toContain("none of it can be had again now");
  });

  test.each([
    ["led on", { ledTo: "GET /new?a=1" }, "led the buyer on to GET /new?a=1"],
    ["shown the head", { isHeadOnly: true }, "nobody has come for the goods yet"],
  ])("about a buyer who was %s is to wait for him", (_, of, said) => {
    const awaited = { ...owed, attempts: 0, ...of };
    expect(adviceOn(awaited, NOW)).toContain(said);
    expect(needsOperator(awaited, NOW)).toBe(false);
    // Once a delivery has failed that is what counts.
    expect(adviceOn({ ...awaited, attempts: 1 }, NOW)).toContain("see why the backend");
    expect(needsOperator({ ...awaited, attempts: 1 }, NOW)).toBe(true);
  });
});

test.each([
  ["held", { ...paid, state: "SIGNED", heldTransaction: "0x6" }, true],
  ["just being settled", { ...paid, state: "SIGNED", claimedMs: NOW - 120_000 }, false],
  ["without an outcome for long", { ...paid, state: "SIGNED", claimedMs: NOW - 120_001 }, true],
  ["owed", owed, true],
  ["being waited for", { ...owed, isLeft: false }, false],
  ["settled for others", { ...owed, binding: null }, false],
  ["delivered", sold, false],
  ["failed", failed, false],
] as const)("whether a payment that is %s needs the operator", (_, payment, needs) => {
  expect(needsOperator(payment, NOW)).toBe(needs);
});
