/** What strangers may have settled at our gas, through the listener of a whole product before a real chain. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PURSE, richBuyer } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { requirementsFor } from "../../support/facilitator.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import { signPayment, type FreshAccount } from "../../support/payer.ts";

let chain: Chain;

beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain.stop());

/** `network` and `allow` are YAML. */
function open(network: string, allow: string): Promise<RunningGateway> {
  const { name } = chain.network;
  return startGateway({
    chain,
    facilitator: `
  listen: 127.0.0.1:0
  embedded:
    networks: { ${name}: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER], ${network} } }
    ${allow}
`,
  });
}

async function ask(
  gateway: RunningGateway,
  what: "verify" | "settle",
  { buyer, units }: { readonly buyer: FreshAccount; readonly units: string },
): Promise<Record<string, unknown>> {
  const { payee: payTo } = gateway;
  const paymentRequirements = requirementsFor(chain, { payTo, maxAmountRequired: units });
  const paymentPayload = await signPayment({
    account: buyer.account,
    requirements: paymentRequirements,
  });
  const response = await fetch(`${gateway.facilitatorUrl}/${what}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ x402Version: 1, paymentPayload, paymentRequirements }),
  });
  return Object(await response.json());
}

describe("a settlement that others ask for", () => {
  it("moves 1 unit, and never 0, where nothing is known of its gas", async () => {
    await using gateway = await open("confirmations: 1", "");
    const buyer = await richBuyer(chain);
    expect(await ask(gateway, "settle", { buyer, units: "0" })).toMatchObject({
      success: false,
      errorReason: "invalid_payment_requirements",
      detail: "maxAmountRequired must be 1 or more to be settled here",
    });
    expect(await ask(gateway, "settle", { buyer, units: "1" })).toMatchObject({ success: true });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 1n);
  });

  it("moves about its gas at least, where that can be told", async () => {
    await using gateway = await open("nativePrice: $3000", "");
    const buyer = await richBuyer(chain);
    const isTaken = async (units: string) =>
      (await ask(gateway, "verify", { buyer, units }))["isValid"];
    // As soon as the node has said what gas costs.
    await expect.poll(() => isTaken("100"), { timeout: 10_000 }).toBe(false);
    expect(await isTaken("5000000")).toBe(true);
  });

  it("moves what the configuration says at least", async () => {
    await using gateway = await open("nativePrice: $3000", "allow: { minAmount: $0.01 }");
    const buyer = await richBuyer(chain);
    expect(await ask(gateway, "settle", { buyer, units: "9999" })).toMatchObject({
      success: false,
    });
    expect(await ask(gateway, "settle", { buyer, units: "10000" })).toMatchObject({
      success: true,
    });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
  });
});
