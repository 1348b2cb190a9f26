/** How the refund of what is unspent stands in a row. */
import { expect, test } from "vitest";
import { firstRow } from "../../../src/ledger/first-use.ts";
import { askedRefund, refundAmount } from "../../../src/ledger/refunds.ts";
import { examplePayment } from "./example-payment.ts";
import { termsOf } from "./ledger-driver.ts";

const row = firstRow(termsOf(examplePayment(1)), { life: "one", nowMs: 1 });

test("a replica of an older program, which would send all that was paid, finds nothing that it can read", () => {
  const asked = { ...row, ...askedRefund(row, { creditsAtomic: 4_000n }) };
  const older = Object(JSON.parse(asked.refund ?? ""));
  // It throws where that is no number.
  expect(older.attempt).toBeUndefined();
  expect(refundAmount(asked)).toBe(4_000n);
  expect(askedRefund(asked, { creditsAtomic: 7n })).toMatchObject({ refundState: "ASKED" });
});

test("of a whole payment it stands as it ever has", () => {
  const asked = { ...row, ...askedRefund(row) };
  expect(JSON.parse(asked.refund ?? "")).toEqual({
    attempt: 0,
    isAutomatic: false,
    transfer: null,
    transaction: null,
    detail: null,
    refusal: null,
  });
  expect(refundAmount(asked)).toBe(10_000n);
});
