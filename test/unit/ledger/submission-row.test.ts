import { describe, expect, it } from "vitest";
import { LedgerUnavailable } from "../../../src/ledger/ledger.ts";
import { readSubmissionRow } from "../../../src/ledger/submission-row.ts";
import { signWith } from "./ledger-driver.ts";

describe("a stored submission", () => {
  const variants = [signWith(0)];
  const cost = { feeAtomic: "5", priorityAtomic: "1", moved: 1, priceAttodollars: null };
  const columns = { id: "0x1", network: "base", state: "OPEN", signedMs: 5, variants, cost: null };

  it("is read from text and from what a driver has parsed", () => {
    expect(readSubmissionRow(columns)).toEqual(columns);
    expect(readSubmissionRow({ ...columns, variants: JSON.stringify(variants) })).toEqual(columns);
    const known = { ...columns, cost: JSON.stringify(cost) };
    expect(readSubmissionRow(known)).toEqual({ ...columns, cost });
  });

  it("is refused where a part of it is missing or is something else", () => {
    const [variant] = variants;
    for (const change of [
      { id: null },
      { network: 5 },
      { state: "DONE" },
      { signedMs: "5" },
      { variants: "[]" },
      { variants: "{}" },
      { variants: null },
      { variants: [null] },
      { variants: [{ ...variant, raw: undefined }] },
      { variants: [{ ...variant, transaction: 1 }] },
      { variants: [{ ...variant, account: null }] },
      { variants: [{ ...variant, accountNonce: "0" }] },
      { cost: "{}" },
      { cost: JSON.stringify({ ...cost, feeAtomic: "-5" }) },
      { cost: JSON.stringify({ ...cost, moved: "1" }) },
      { cost: JSON.stringify({ ...cost, priceAttodollars: 7 }) },
    ]) {
      expect(() => readSubmissionRow({ ...columns, ...change }), JSON.stringify(change)).toThrow(
        LedgerUnavailable,
      );
    }
  });
});
