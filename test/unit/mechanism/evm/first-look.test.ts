import { describe, expect, test } from "vitest";
import { EvmFirstLooks } from "../../../../src/mechanism/evm/first-look.ts";
import type { PaymentRequirements } from "../../../../src/x402/x402.ts";
import {
  freshAccount,
  requirementsFor,
  signPayment,
  type SignOptions,
} from "../../../support/payer.ts";

const payee = freshAccount();
const payer = freshAccount();
const requirements = requirementsFor("base-sepolia", { payTo: payee.address });
const nowSeconds = Math.floor(Date.now() / 1000);
const looks = new EvmFirstLooks(() => nowSeconds);

async function lookAt(
  overrides: SignOptions["overrides"] = {},
  asked: PaymentRequirements = requirements,
) {
  const paymentPayload = await signPayment({ account: payer.account, requirements, overrides });
  return looks.look({ paymentPayload, paymentRequirements: asked });
}

describe("a payment that others settle", () => {
  test("is its payer's own, and may be good", async () => {
    expect(await lookAt()).toMatchObject({ proven: true, fault: null });
  });

  test("proves nothing where somebody else has signed; it may be a wallet's", async () => {
    expect(await lookAt({ from: payee.address })).toMatchObject({ proven: false, fault: null });
  });

  test.each([
    ["to another", { to: payer.address }, "recipient_mismatch"],
    ["too little", { value: "1" }, "authorization_value"],
    ["past", { validBefore: String(nowSeconds - 1) }, "valid_before"],
    ["to come", { validAfter: String(nowSeconds + 9) }, "valid_after"],
  ])("can pay nothing: %s", async (_what, overrides, code) => {
    const seen = await lookAt(overrides);
    expect(seen?.proven).toBe(true);
    expect(seen?.fault?.code).toContain(code);
    const unproven = await lookAt({ ...overrides, from: payee.address });
    expect(unproven?.fault?.code).toBe("invalid_exact_evm_payload_signature");
  });

  test("is not refused for what only others ask of its validity", async () => {
    expect(await lookAt({ validBefore: String(nowSeconds) })).toMatchObject({ fault: null });
  });

  test.each<[string, Partial<PaymentRequirements>]>([
    ["on Solana", { network: "solana-devnet" }],
    ["on a network that nobody knows", { network: "moon" }],
    ["in a token of unknown domain", { extra: {} }],
    ["in what is no token", { asset: "gold" }],
  ])("is left to them %s", async (_what, changed) => {
    expect(await lookAt({}, { ...requirements, ...changed })).toBeUndefined();
  });

  test("proves nothing in a token of another domain", async () => {
    const asked = { ...requirements, extra: { name: "Other", version: "1" } };
    expect(await lookAt({}, asked)).toMatchObject({ proven: false, fault: null });
  });
});
