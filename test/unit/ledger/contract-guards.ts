/** What the ledger refuses to whom, where somebody gains by asking: each rule on both of its sides. */
import { expect, it } from "vitest";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment, PAYER } from "./example-payment.ts";
import {
  bring,
  CALLER,
  FAILURE,
  forged,
  repriced,
  sign,
  SETTLEMENT,
  termsOf,
  word,
} from "./ledger-driver.ts";

export function describeGuards(open: OpenLedger): void {
  const place = eachTestIn(open);
  const payment = examplePayment(1);
  const { key, request } = payment;

  it("gives a paid delivery to its payer in any spelling, and to nobody without the signature", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "settled");
    expect(
      await ledger.step(key, { kind: "claim", terms: termsOf({ request: forged(request) }) }),
    ).toEqual({
      kind: "forged",
    });
    const { payload } = request.paymentPayload;
    const signature = `0x${"AB".repeat(65)}`;
    const paymentPayload = { ...request.paymentPayload, payload: { ...payload, signature } };
    const loud = termsOf({ request: { ...request, paymentPayload } });
    expect(await word(ledger.step(key, { kind: "claim", terms: loud }))).toBe("settled");
  });

  it("answers a caller's key for the requirements that it was first used with only", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "settled");
    for (const change of [
      { network: "base" },
      { asset: PAYER },
      { payTo: PAYER },
      { maxAmountRequired: "9" },
      { resource: "https://api.example.com/other" },
    ]) {
      const begun = await ledger.step(key, {
        kind: "begin",
        request: repriced(request, change),
        caller: CALLER,
      });
      expect({ change, begun }).toEqual({ change, begun: { kind: "taken" } });
    }
    const described = repriced(request, { description: "said in other words" });
    expect(
      await word(ledger.step(key, { kind: "begin", request: described, caller: CALLER })),
    ).toBe("settled");
    expect(
      await word(ledger.step(key, { kind: "begin", request: forged(request), caller: CALLER })),
    ).toBe("taken");
  });

  it("never signs a payment twice whose first bytes may still be sent", async () => {
    const { ledger } = place();
    await bring(ledger, payment, "failed");
    for (const caller of [CALLER, "another key", undefined]) {
      expect(await ledger.step(key, { kind: "begin", request, caller })).toEqual({
        kind: "failed",
        failure: FAILURE,
      });
      expect(
        await word(ledger.step(key, { kind: "begin", request: forged(request), caller })),
      ).toBe("taken");
    }
    expect(await word(sign(ledger, [payment]))).toBe("conflict");
  });

  it("never forgets a settlement: no other transaction, no failure, no release undoes it", async () => {
    const { ledger } = place();
    const paid = ["settled", "delivering", "delivered", "kept", "exhausted"] as const;
    for (const [number, state] of paid.entries()) {
      const each = examplePayment(10 + number);
      await bring(ledger, each, state);
      const undoing = [
        word(ledger.step(each.key, { kind: "failed", failure: FAILURE })),
        word(ledger.step(each.key, { kind: "released" })),
        word(ledger.step(each.key, { kind: "withdrawn" })),
        word(
          ledger.step(each.key, {
            kind: "handedOver",
            facilitator: "https://elsewhere.example.com",
          }),
        ),
        word(
          ledger.step(each.key, {
            kind: "settled",
            settlement: { ...SETTLEMENT, transaction: "0xbb" },
          }),
        ),
        word(sign(ledger, [each])),
      ];
      for (const met of await Promise.all(undoing)) expect(met).toBe("conflict");
      expect(await ledger.books.show(each.key)).toMatchObject({ transaction: "0xaa" });
    }
  });
}
