import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { afterAll, beforeAll, expect, test } from "vitest";
import { richBuyer } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { requirementsFor, startFacilitator } from "../../support/facilitator.ts";
import { signPayment } from "../../support/payer.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";

/** Seconds that the world moves on, past the validity of the payment that is refused. */
const LATER = 1_000;

let chain: Chain;

beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain.stop());

test("a settlement that the node refuses for good does not block the ones after it", async () => {
  await using proxy = await startRpcProxy(chain.rpcUrl);
  let ahead = 0;
  const clock = () => Date.now() + ahead * 1000;
  await using running = await startFacilitator({ chain, rpcUrl: proxy.url, clock });
  const { facilitator } = running;
  const pay = async () => {
    const { account } = await richBuyer(chain);
    const paymentRequirements = requirementsFor(chain);
    const now = Math.floor(clock() / 1000);
    const paymentPayload = await signPayment({ account, requirements: paymentRequirements, now });
    return { paymentPayload, paymentRequirements };
  };

  const refused = proxy.inject({
    method: "eth_sendRawTransaction",
    error: { code: -32000, message: "transaction pool is full" },
  });
  const expired = onTheWire(facilitator).settle(await pay(), {
    signal: AbortSignal.timeout(15_000),
  });
  await refused.hit();
  ahead = LATER;
  await chain.setNextBlockTimestamp(Math.floor(clock() / 1000));
  await chain.mine();
  expect(await expired).toMatchObject({ success: false, transaction: "" });
  // Its account nonce is still unused, and the next payment takes the next one.
  const behind = await pay();
  const waiting = onTheWire(facilitator).settle(behind, { signal: AbortSignal.timeout(15_000) });
  await refused.hit(refused.hits + 2);
  refused.lift();
  expect(await waiting).toMatchObject({ success: true });
  const payee = behind.paymentRequirements.payTo as `0x${string}`;
  expect(await chain.balanceOf(payee)).toBe(10_000n);
  const count = await chain.rpc("eth_getTransactionCount", [running.signer, "latest"]);
  expect(Number(count)).toBe(2);
});
