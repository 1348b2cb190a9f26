import { describe, expect, it } from "vitest";
import { NETWORK_NAMES, networkOf } from "../../src/x402/network.ts";
import { richBuyer } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { requirementsFor, startFacilitator } from "../support/facilitator.ts";
import { signPayment } from "../support/payer.ts";

const evmNetworks = NETWORK_NAMES.filter((name) => networkOf(name).kind === "evm");

it("there are ten EVM networks (protocol section 8.1)", () => {
  expect(evmNetworks).toHaveLength(10);
});

describe.each(evmNetworks)("%s", (network) => {
  it("passes its start-up checks and settles in its own USDC under its own domain", async () => {
    await using chain = await startChain({ network });
    await using facilitator = await startFacilitator({ chain });
    expect(facilitator.probes).toEqual([{ network, state: "open", findings: [] }]);
    const buyer = await richBuyer(chain);
    const requirements = requirementsFor(chain);
    const payment = await signPayment({ account: buyer.account, requirements });
    const request = { paymentPayload: payment, paymentRequirements: requirements };
    const settling = facilitator.post("/settle", request);
    const settled = await mineUntil(chain, settling);
    expect(settled.body).toMatchObject({ success: true, network, payer: buyer.address });
    expect(await chain.balanceOf(requirements.payTo as `0x${string}`)).toBe(10_000n);
    expect((await facilitator.get("/supported")).body).toMatchObject({
      kinds: [
        { x402Version: 1, scheme: "exact", network },
        { x402Version: 2, scheme: "exact", network: networkOf(network).caip2 },
      ],
    });
  });
});

/** Networks that ask for several confirmations need blocks on top, which an idle node does not make. */
async function mineUntil<Value>(chain: Chain, settling: Promise<Value>): Promise<Value> {
  const progress = { isOver: false };
  const settled = settling.finally(() => (progress.isOver = true));
  while (!progress.isOver) await Promise.race([settled, chain.mine()]);
  return settled;
}
