/** What a buyer is told whose payment is used already, and what is kept of it for the operator. */
import { expect, test } from "vitest";
import { askingTheSeller } from "../../../../src/x402/result.ts";
import { PAYER } from "../../ledger/example-payment.ts";
import { paywallStage, presented } from "./paywall-stage.ts";

const DAY_MS = 86_400_000;

const USED = askingTheSeller("the authorization's nonce is used or cancelled");
const refusal = { code: "invalid_transaction_state", detail: USED };

function refuses(detail: string) {
  const invalidReason = "invalid_transaction_state" as const;
  return async () => ({ isValid: false as const, invalidReason, payer: PAYER, detail });
}

test("a payment that the chain knows as used, and the ledger does not, is kept for the operator", async () => {
  const { paywall, facilitator, ledger, time } = await paywallStage();
  facilitator.onVerify = refuses(USED);
  const admission = await paywall.admit(presented());
  expect(admission).toEqual({ kind: "refused", refusal });
  expect(USED).toMatch(/; if you were charged for this, ask the seller$/);
  const [note, ...others] = await ledger.books.usedElsewhere(10);
  expect(others).toEqual([]);
  expect(note).toMatchObject({ payer: PAYER, amount: "10000", seenMs: time.now() });
  expect(note?.binding).toBe(presented().binding);
  expect(await ledger.books.list({ limit: 10 })).toEqual([]);
  await paywall.admit(presented());
  expect(await ledger.books.usedElsewhere(10)).toEqual([note]);
});

test("no other refusal is kept", async () => {
  const { paywall, facilitator, ledger } = await paywallStage();
  facilitator.onVerify = refuses("this payment is being settled");
  await paywall.admit(presented());
  expect(await ledger.books.usedElsewhere(10)).toEqual([]);
});

test("a ledger that cannot note it changes nothing of the answer", async () => {
  const { paywall, facilitator, log } = await paywallStage({
    redemptions: (ledger) =>
      new Proxy(ledger, {
        get: (target, name) => {
          if (name === "noteUsedElsewhere") return () => Promise.reject(new Error("no disk"));
          const member: unknown = Reflect.get(target, name);
          return typeof member === "function" ? member.bind(target) : member;
        },
      }),
  });
  facilitator.onVerify = refuses(USED);
  expect(await paywall.admit(presented())).toEqual({ kind: "refused", refusal });
  expect(JSON.stringify(log)).toContain("could not be noted");
});

test("a payment whose row was swept is answered as before, though it has expired meanwhile", async () => {
  const { paywall, facilitator, ledger, time } = await paywallStage();
  const admission = await paywall.admit(presented());
  if (admission.kind !== "admitted") throw new Error(admission.kind);
  await admission.paid.delivered();
  const before = await paywall.admit(presented());
  expect(before).toMatchObject({ kind: "refused", replay: "used" });
  await time.advance(100 * DAY_MS);
  await ledger.books.counts();
  expect(
    (await ledger.upkeep.sweep({ beforeMs: time.now(), from: undefined, archive: undefined }))
      .payments,
  ).toBe(1);
  facilitator.judge = () => ({
    isValid: false,
    invalidReason: "invalid_exact_evm_payload_authorization_valid_before",
    payer: PAYER,
    detail: "validBefore is past",
  });
  expect(await paywall.admit(presented())).toEqual(before);
  // Where nobody refuses it at once, as for networks that are settled elsewhere.
  facilitator.judge = () => undefined;
  expect(await paywall.admit(presented())).toEqual(before);
  expect(facilitator.settled).toHaveLength(1);
});
