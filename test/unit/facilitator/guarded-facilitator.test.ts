/** What is settled for others goes by the same lists and pauses, but for what was begun before. */
import { expect, test } from "vitest";
import { guarded } from "../../../src/facilitator/guarded-facilitator.ts";
import type { WireFacilitator } from "../../../src/facilitator/wire-facilitator.ts";
import type { SettlementOutcome } from "../../../src/ledger/ledger.ts";
import type { Buyer } from "../../../src/payments/sale/sale-guard.ts";
import type { VerifyResponse } from "../../../src/x402/x402.ts";
import { examplePayment, PAYER } from "../ledger/example-payment.ts";

const { request } = examplePayment(1);
const NETWORK = "base-sepolia";
const signal = new AbortController().signal;
const SETTLED = { success: true, transaction: "0xaa", network: NETWORK, payer: PAYER } as const;
const BARRED = {
  kind: "barred",
  refusal: { code: "invalid_payload", codeV2: "its_own_code", detail: "not of this payer" },
  seconds: null,
} as const;

function stage(
  status: 403 | 503 | undefined,
  outcome: SettlementOutcome = { kind: "gone" },
  verdict: VerifyResponse = { isValid: true, payer: PAYER },
) {
  const asked: string[] = [];
  const buyers: Buyer[] = [];
  const open: WireFacilitator = {
    verify: async () => (asked.push("verify"), verdict),
    settle: async () => (asked.push("settle"), SETTLED),
    supported: async () => ({ kinds: [] }),
  };
  const guard = {
    isDenied: (_network: string, payer: string) => status === 403 && payer === PAYER,
    barOf: (buyer: Buyer) => {
      buyers.push(buyer);
      const isAsked = status === 503 || buyer.payer !== undefined;
      return status && isAsked ? { ...BARRED, status } : undefined;
    },
  };
  const facilitator = guarded(open, { guard, ledger: { outcome: async () => outcome } });
  return { facilitator, asked, buyers };
}

test("a payment of a payer on a list is judged invalid, and not settled", async () => {
  const { facilitator, asked, buyers } = stage(403);
  const detail = "not of this payer";
  const told = { payer: PAYER, detail, codeV2: "its_own_code" };
  expect(await facilitator.verify(request, signal)).toEqual({
    isValid: false,
    invalidReason: "invalid_payload",
    ...told,
  });
  expect(await facilitator.settle(request, { signal })).toEqual({
    success: false,
    errorReason: "invalid_payload",
    transaction: "",
    network: NETWORK,
    ...told,
  });
  expect(asked).toEqual(["verify", "verify"]);
  expect(buyers).toContainEqual({ network: NETWORK, payer: PAYER });
});

test("whoever only names a payer on a list is told what is wrong with his payment, and nothing of lists", async () => {
  const invalidReason = "invalid_payload";
  const told = { payer: PAYER, detail: "the signature is not the payer's for this payment" };
  const verdict = { isValid: false, invalidReason, ...told } as const;
  const { facilitator, asked, buyers } = stage(403, undefined, verdict);
  expect(await facilitator.verify(request, signal)).toEqual(verdict);
  expect(await facilitator.settle(request, { signal })).toMatchObject({
    success: false,
    errorReason: invalidReason,
    ...told,
  });
  expect(asked).toEqual(["verify", "verify"]);
  expect(buyers.every(({ payer }) => payer === undefined)).toBe(true);
});

test("on a network that is paused nothing is judged or settled now, and no money moves", async () => {
  const { facilitator, asked } = stage(503);
  const fault = { name: "FacilitatorFault", kind: "unavailable" };
  await expect(facilitator.verify(request, signal)).rejects.toMatchObject(fault);
  await expect(facilitator.settle(request, { signal })).rejects.toMatchObject(fault);
  expect(asked).toEqual([]);
});

test.each<[SettlementOutcome, boolean]>([
  [{ kind: "pending", version: 2 }, true],
  [{ kind: "settled", settlement: SETTLED }, true],
  [{ kind: "held", transaction: "0xaa" }, true],
  [{ kind: "failed", failure: { code: "insufficient_funds", detail: "" } }, false],
  [{ kind: "gone" }, false],
])("what the ledger knows as %j goes on: %s", async (outcome, goesOn) => {
  const { facilitator, asked } = stage(403, outcome);
  expect((await facilitator.settle(request, { signal })).success).toBe(goesOn);
  expect(asked).toEqual(goesOn ? ["settle"] : ["verify"]);
});

test("whom nothing speaks against is settled, and the ledger is not asked", async () => {
  const { facilitator, asked } = stage(undefined);
  expect((await facilitator.verify(request, signal)).isValid).toBe(true);
  expect((await facilitator.settle(request, { signal })).success).toBe(true);
  expect(asked).toEqual(["verify", "settle"]);
});
