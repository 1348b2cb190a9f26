/** What a buyer is told of his payment: where it stands, and of a refund that waits nothing but that. */
import { expect, test } from "vitest";
import { statusAnswer } from "../../../src/gateway/payment-status.ts";
import type { PaymentStatus } from "../../../src/ledger/ledger.ts";
import { REFUND_STATES } from "../../../src/ledger/refund-steps.ts";

const PAID = {
  state: "FAILED",
  isHeld: false,
  network: "base-sepolia",
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  amount: "10000",
  transaction: "0xaa",
  isPaidBack: false,
  refund: null,
  metered: null,
} as const satisfies PaymentStatus;

test("a refund is told by where it stands, and not why it waits for the seller", () => {
  const told = REFUND_STATES.map((state) => {
    const detail = "its payer is on a list: payers.deny";
    const refund = { state, transaction: null, detail, transfer: null, creditsAtomic: null };
    const { body } = statusAnswer({ ...PAID, refund }, []);
    expect(String(body)).not.toMatch(/list|deny|payer/);
    return [state, Object(JSON.parse(String(body))).state];
  });
  expect(Object.fromEntries(told)).toEqual({
    ASKED: "refunding",
    SENDING: "refunding",
    REFUNDED: "refunded",
    FAILED: "held",
  });
});

test("what of it was used is told, and where the rest is", () => {
  const metered = { charged: "400", change: "9600", usage: "200", reason: null };
  const { body } = statusAnswer({ ...PAID, metered }, []);
  expect(JSON.parse(String(body))).toMatchObject({ amount: "10000", metered });
  expect(String(statusAnswer(PAID, []).body)).not.toContain("metered");
});
