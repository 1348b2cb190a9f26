/** What the key for refunds signs: the token moves it once, and it pays whom no other payer may. */
import { describe, expect, test } from "vitest";
import { createEvmMechanism } from "../../../../src/mechanism/evm/evm.ts";
import type { TransferBack } from "../../../../src/mechanism/mechanism.ts";
import { networkOf } from "../../../../src/x402/network.ts";
import { isEvmPayload } from "../../../../src/x402/payment-key.ts";
import { freshAccount, requirementsFor, signPayment } from "../../../support/payer.ts";

const NOW = 1_800_000_000;
const [signer, refunder, payee, buyer] = Array.from({ length: 4 }, () => freshAccount());
const { signal } = new AbortController();

function open() {
  const network = networkOf("base-sepolia");
  if (network.kind !== "evm") throw new Error("base-sepolia is an EVM network");
  const mechanism = createEvmMechanism({
    network,
    assets: [network.asset],
    rpcUrls: ["http://127.0.0.1:9"],
    keys: [signer?.privateKey ?? ""],
    refundKey: refunder?.privateKey,
    clock: () => NOW,
    allowPayTo: [payee?.address ?? ""],
  });
  const { asset } = network;
  const back = {
    asset: asset.address,
    to: buyer?.address ?? "",
    amountAtomic: 10_000n,
    payment: "base-sepolia/0x1/0x2/0x3",
    number: 1,
    resource: "https://shop.example.com/weather",
  };
  return { mechanism, back };
}

const { mechanism, back } = open();

async function sign(changes: Partial<TransferBack> = {}) {
  const request = await mechanism.refunder?.transfer({ ...back, ...changes }, signal);
  if (request === undefined) throw new Error("there is a key for refunds");
  const { payload } = request.paymentPayload;
  if (!isEvmPayload(payload)) throw new Error("it signs authorizations");
  return { request, authorization: payload.authorization };
}

describe("a refund on an EVM network", () => {
  test("is a payment to the payer that the facilitator finds in order", async () => {
    const { request, authorization } = await sign();
    expect(authorization).toMatchObject({
      from: refunder?.address,
      to: buyer?.address,
      value: "10000",
      // Whoever has to wait until it can never be moved waits no longer.
      validBefore: String(NOW + 600),
    });
    const checked = mechanism.check(request, NOW);
    expect(checked).toMatchObject({ ok: true, value: { fault: null, proven: true } });
  });

  test("is signed in tokens that are configured, whatever their letter case", () => {
    const assets = [back.asset, back.asset.toLowerCase(), back.to];
    expect(assets.map((asset) => mechanism.refunder?.has(asset))).toEqual([true, true, false]);
  });

  test("has one nonce for each payment and number, whoever signs it and when", async () => {
    const { nonce } = (await sign()).authorization;
    expect((await sign()).authorization.nonce).toBe(nonce);
    const other = open().mechanism.refunder;
    const { paymentPayload } = (await other?.transfer(back, signal)) ?? {};
    expect(JSON.stringify(paymentPayload)).toContain(nonce);
    expect((await sign({ number: 2 })).authorization.nonce).not.toBe(nonce);
    expect((await sign({ payment: `${back.payment}0` })).authorization.nonce).not.toBe(nonce);
  });

  test("is the only payment whose payee need not be one of ours", async () => {
    const requirements = requirementsFor("base-sepolia", { payTo: buyer?.address ?? "" });
    const account = (payee ?? freshAccount()).account;
    const paymentPayload = await signPayment({ account, requirements, now: NOW });
    const request = { paymentPayload, paymentRequirements: requirements };
    expect(mechanism.check(request, NOW)).toMatchObject({
      ok: false,
      error: { detail: "payTo is not a recipient that is served here" },
    });
  });

  test("in a token that is not settled here is not signed", async () => {
    await expect(sign({ asset: `0x${"11".repeat(20)}` })).rejects.toThrow("is not settled here");
  });
});
