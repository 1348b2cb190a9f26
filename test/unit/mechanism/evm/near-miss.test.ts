import { expect, test } from "vitest";
import { createTokens, readRequest } from "../../../../src/mechanism/evm/authorization.ts";
import { nearMissOf } from "../../../../src/mechanism/evm/near-miss.ts";
import { networkOf } from "../../../../src/x402/network.ts";
import { freshAccount, requirementsFor, signPayment } from "../../../support/payer.ts";

const { account } = freshAccount();
const requirements = requirementsFor("base-sepolia", { payTo: freshAccount().address });
const OTHER = requirementsFor("base", { payTo: requirements.payTo }).asset;
type Signed = Partial<Parameters<typeof signPayment>[0]>;

async function missOf(signed: Signed): Promise<string | undefined> {
  const network = networkOf("base-sepolia");
  if (network.kind !== "evm") throw new Error("base-sepolia is an EVM network");
  const paymentPayload = await signPayment({ account, requirements, ...signed });
  const read = readRequest({ paymentPayload, paymentRequirements: requirements }, network.name, {
    tokens: createTokens(network, [network.asset]),
    payTo: null,
    validBeforeMarginSeconds: 0,
  });
  if (!read.ok) throw new Error(read.error.detail);
  return nearMissOf(read.value);
}

test.each<[signed: Signed, said: string]>([
  [{ chainId: 8453 }, "signed for chain 8453; this is 84532"],
  [
    {
      chainId: 8453,
      domain: { name: "USD Coin" },
      requirements: { ...requirements, asset: OTHER },
    },
    "signed for chain 8453; this is 84532",
  ],
  [{ domain: { name: "USD Coin" } }, 'signed for token name "USD Coin"; this one\'s is "USDC"'],
  [{ domain: { version: "1" } }, 'signed for token version "1"; this one\'s is "2"'],
  [
    { requirements: { ...requirements, asset: OTHER } },
    `signed for the token ${OTHER}; this one is ${requirements.asset}`,
  ],
])("a signature for another domain is told so: %o", async (signed, said) => {
  expect(await missOf(signed)).toBe(said);
});

test("of a signature of somebody else's nothing is said", async () => {
  const overrides = { from: freshAccount().address };
  expect(await missOf({ overrides })).toBeUndefined();
  expect(await missOf({ overrides, chainId: 8453 })).toBeUndefined();
});

test("a signature that is no key's is told to be of a wallet that is not there", async () => {
  const corrupt: Signed["corrupt"] = (payment) => {
    return { ...payment, payload: { ...payment.payload, signature: `0x${"1".repeat(192)}` } };
  };
  expect(await missOf({ corrupt })).toContain("a smart wallet pays once it is deployed");
});
