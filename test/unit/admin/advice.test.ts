import { describe, expect, test } from "vitest";
import { adviceOn, adviceOnRequest } from "../../../src/admin/advice.ts";
import type { PaymentSummary } from "../../../src/ledger/books.ts";
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
  attempts: 0,
  failureCode: "insufficient_funds",
  failureDetail: "the payer holds 0",
  claimedMs: 0,
  updatedMs: 0,
};

describe("what to do", () => {
  test("about a refusal is the same for a request and for a payment in the ledger", () => {
    const said = adviceOnRequest("refused", "insufficient_funds: the payer holds 0");
    expect(said).toMatch(/^the payer's account holds less/);
    expect(adviceOn(failed)).toMatch(new RegExp(`no money moved.*The reason: ${said}$`));
  });

  test("is said of a payment that failed for a reason that is none of ours, too", () => {
    expect(adviceOn({ ...failed, failureCode: null })).toMatch(/the payment counts as paid$/);
  });

  test("follows from how a request ended where the client was told no code", () => {
    expect(adviceOnRequest("limited", null)).toContain("limits.unpaidPerIp");
    expect(adviceOnRequest("challenged", "X-PAYMENT header is required")).toMatch(
      /^nothing is paid/,
    );
    expect(adviceOnRequest("refused", "constructor: x")).toMatch(/^nothing was charged/);
  });
});
