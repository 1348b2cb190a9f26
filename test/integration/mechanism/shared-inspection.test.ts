import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { richBuyer } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import {
  requirementsFor,
  startFacilitator,
  type RunningFacilitator,
} from "../../support/facilitator.ts";
import { freshAccount, signPayment, type FreshAccount } from "../../support/payer.ts";
import { startRpcProxy, type RpcProxy } from "../../support/rpc-proxy.ts";
import { delegation } from "../../support/two-faced-wallet.ts";
import type { FacilitatorRequest } from "../../../src/x402/x402.ts";

let chain: Chain;
let proxy: RpcProxy;
let running: RunningFacilitator;

beforeAll(async () => {
  chain = await startChain();
  proxy = await startRpcProxy(chain.rpcUrl);
  running = await startFacilitator({ chain, rpcUrl: proxy.url });
});
afterAll(async () => {
  await running[Symbol.asyncDispose]();
  await proxy[Symbol.asyncDispose]();
  await chain.stop();
});
beforeEach(() => running.rpcCalls.clear());

async function payment(
  { account }: FreshAccount,
  terms: Parameters<typeof requirementsFor>[1] = {},
): Promise<FacilitatorRequest> {
  const paymentRequirements = requirementsFor(chain, terms);
  const paymentPayload = await signPayment({ account, requirements: paymentRequirements });
  return { paymentPayload, paymentRequirements };
}

async function verdict(request: FacilitatorRequest): Promise<string> {
  const answer = await onTheWire(running.facilitator).verify(request, AbortSignal.timeout(10_000));
  return answer.isValid ? "valid" : answer.invalidReason;
}

const buyers = (count: number) =>
  Promise.all(Array.from({ length: count }, () => richBuyer(chain)));

describe("verifications of concurrent buyers", () => {
  it("share calls: the first goes at once, the others together", async () => {
    const requests = await Promise.all((await buyers(20)).map((buyer) => payment(buyer)));
    expect(new Set(await Promise.all(requests.map(verdict)))).toEqual(new Set(["valid"]));
    expect(running.rpcCalls.get("eth_call")).toBe(2);
  });

  it("never wait when nothing is in flight", async () => {
    const [buyer] = await buyers(1);
    const held = proxy.inject({ method: "eth_call", hold: true });
    const verifying = verdict(await payment(buyer ?? freshAccount()));
    await held.hit();
    held.lift();
    expect(await verifying).toBe("valid");
    expect(running.rpcCalls.get("eth_call")).toBe(1);
  });

  it("are judged each by itself, whatever is wrong with the others", async () => {
    const good = await buyers(6);
    const requests = await Promise.all(good.map((buyer) => payment(buyer)));
    const [spent] = await buyers(1);
    const used = await payment(spent ?? freshAccount());
    await onTheWire(running.facilitator).settle(used, { signal: AbortSignal.timeout(10_000) });
    const poor = await payment(freshAccount());
    const frozen = await richBuyer(chain);
    await chain.setBlacklisted(frozen.address, true);
    const mixed = [...requests, used, poor, await payment(frozen), ...requests];
    expect(await Promise.all(mixed.map(verdict))).toEqual([
      ...requests.map(() => "valid"),
      "invalid_transaction_state",
      "insufficient_funds",
      "invalid_transaction_state",
      ...requests.map(() => "valid"),
    ]);
  });

  it("take what was read for certain, and ask alone about a transfer that fails", async () => {
    const [opener] = await buyers(1);
    const frozen = await richBuyer(chain);
    await chain.setBlacklisted(frozen.address, true);
    const payers = [opener ?? freshAccount(), freshAccount(), freshAccount(), frozen];
    const requests = await Promise.all(payers.map((payer) => payment(payer)));
    expect(await Promise.all(requests.map(verdict))).toEqual([
      "valid",
      "insufficient_funds",
      "insufficient_funds",
      "invalid_transaction_state",
    ]);
    // The opener's, one for the three others, and that of the frozen one.
    expect(running.rpcCalls.get("eth_call")).toBe(3);
  });

  it("tell of a payer's code first what it says of the signature", async () => {
    const [opener, other] = await buyers(2);
    const delegated = freshAccount();
    const delegate = freshAccount().address;
    // STOP: it takes no signature, and says nothing to whoever asks.
    await chain.rpc("anvil_setCode", [delegate, "0x00"]);
    await chain.rpc("anvil_setCode", [delegated.address, delegation(delegate)]);
    const payers = [opener ?? freshAccount(), delegated, other ?? freshAccount()];
    const requests = await Promise.all(payers.map((payer) => payment(payer)));
    expect(await Promise.all(requests.map(verdict))).toEqual([
      "valid",
      "invalid_exact_evm_payload_signature",
      "valid",
    ]);
  });

  it("of one payer do not spend each other's balance in the simulation", async () => {
    const buyer = freshAccount();
    await chain.fund(buyer.address, 10_000n);
    const requests = await Promise.all([payment(buyer), payment(buyer), payment(buyer)]);
    expect(await Promise.all(requests.map(verdict))).toEqual(["valid", "valid", "valid"]);
  });

  it("do not lend each other money: who is paid in the same call still owns nothing", async () => {
    const [opener, rich] = await buyers(2);
    const poor = freshAccount();
    const requests = [
      await payment(opener ?? freshAccount()),
      await payment(rich ?? freshAccount(), { payTo: poor.address }),
      await payment(poor),
    ];
    expect(await Promise.all(requests.map(verdict))).toEqual([
      "valid",
      "valid",
      "insufficient_funds",
    ]);
  });

  it("are asked about one by one when the node refuses the shared call", async () => {
    const requests = await Promise.all((await buyers(5)).map((buyer) => payment(buyer)));
    const single = 2_000;
    const refused = proxy.inject({
      method: "eth_call",
      when: ({ params }) => String(Object(params[0]).data).length > 2 * single,
      error: { code: -32000, message: "gas limit is too high" },
    });
    expect(new Set(await Promise.all(requests.map(verdict)))).toEqual(new Set(["valid"]));
    expect(refused.hits).toBeGreaterThan(0);
    refused.lift();
  });

  it("that are given up leave the others their verdict", async () => {
    const requests = await Promise.all((await buyers(3)).map((buyer) => payment(buyer)));
    const held = proxy.inject({ method: "eth_call", hold: true });
    const [first, second, third] = requests;
    if (!first || !second || !third) throw new Error("three were made");
    const leaving = new AbortController();
    const waiting = [verdict(first), verdict(third)];
    const left = onTheWire(running.facilitator).verify(second, leaving.signal);
    await held.hit();
    leaving.abort();
    await expect(left).rejects.toMatchObject({ kind: "unavailable" });
    held.lift();
    expect(await Promise.all(waiting)).toEqual(["valid", "valid"]);
  });
});
