/**
 * A settlement of which nobody knows when the time is up, in one process and in two workers: a buyer of version 2 hears
 * what was sent, and the same payment buys, once, when the chain has decided.
 */
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { encodeHeaderJson } from "../../../src/x402/header.ts";
import { paymentV2 } from "../../../src/x402/version-2.ts";
import { present, PURSE, quote, richBuyer } from "../../support/buyer.ts";
import { signPayment } from "../../support/payer.ts";
import { Site, type Served } from "../../support/serve.ts";
import { startBackend, startSeller, type Backend, type Seller } from "./stage.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 });

const PRICE = 10_000n;

describe.each([1, 2])("with %i workers", (workers) => {
  const closing = new AsyncDisposableStack();
  let seller: Seller;
  let backend: Backend;
  let served: Served;

  beforeAll(async () => {
    seller = await startSeller();
    closing.use(seller.chain);
    backend = closing.use(await startBackend((_, response) => void response.end("fine")));
    const site = closing.use(await Site.create());
    const routes = "  GET /*: { price: $0.01, description: Anything }\n";
    const yaml = seller.yaml(backend, routes).replace("workers: 2", `workers: ${workers}`);
    served = await site.serve(`${yaml}limits: { settlementWait: 1s }\n`, seller.env);
    await served.untilReady(200, 60_000);
  });

  afterEach(() => seller.chain.rpc("evm_setAutomine", [true]));
  afterAll(() => closing.disposeAsync());

  /** From now on a block for each transaction, and one for those that wait. */
  async function decide(): Promise<void> {
    await seller.chain.rpc("evm_setAutomine", [true]);
    await seller.chain.mine();
  }

  const pending = (payer: string) => ({
    success: false,
    errorReason: "settlement_pending",
    errorMessage: expect.any(String),
    transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/),
    network: "eip155:84532",
    payer,
  });

  it("names the transaction as often as it is asked, and sells once it is in a block", async () => {
    const { chain } = seller;
    const url = `${served.url}/by-hand`;
    const buyer = await richBuyer(chain);
    const requirements = await quote(url);
    const paymentPayload = await signPayment({ account: buyer.account, requirements });
    const envelope = paymentV2({ paymentPayload, paymentRequirements: requirements });
    const headers = { "PAYMENT-SIGNATURE": encodeHeaderJson(envelope) };
    await chain.rpc("evm_setAutomine", [false]);
    const told: unknown[] = [];
    for (let times = 0; times < 2; times += 1) {
      const answer = await fetch(url, { headers });
      expect(answer.status).toBe(500);
      expect(answer.headers.has("Retry-After")).toBe(true);
      expect(answer.headers.has("PAYMENT-REQUIRED")).toBe(false);
      told.push(decodePaymentResponseHeader(answer.headers.get("PAYMENT-RESPONSE") ?? ""));
    }
    expect(told[0]).toEqual(pending(buyer.address));
    expect(told[1]).toEqual(told[0]);
    // Version 1 has no word for it.
    const inV1 = await present(url, encodeHeaderJson(paymentPayload));
    expect(inV1).toMatchObject({ status: 500, receipt: undefined });
    expect(inV1.headers.has("PAYMENT-RESPONSE")).toBe(false);
    await decide();
    const sold = await fetch(url, { headers });
    expect([sold.status, await sold.text()]).toEqual([200, "fine"]);
    const receipt = decodePaymentResponseHeader(sold.headers.get("PAYMENT-RESPONSE") ?? "");
    const { transaction } = Object(told[0]);
    expect(receipt).toMatchObject({ success: true, transaction });
    expect(backend.seen.filter((path) => path === "/by-hand")).toHaveLength(1);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
  });

  it("lets who pays with the official client show what it signed again, and sign no more", async () => {
    const { chain } = seller;
    const url = `${served.url}/official`;
    const { account, address } = await richBuyer(chain);
    const signTypedData = vi.fn(account.signTypedData);
    const client = new x402Client().register(
      "eip155:*",
      new ExactEvmScheme({ address, signTypedData }),
    );
    const shown: string[] = [];
    const remembering: typeof fetch = (input, init) => {
      const header = new Request(input, init).headers.get("PAYMENT-SIGNATURE");
      if (header !== null) shown.push(header);
      return fetch(input, init);
    };
    await chain.rpc("evm_setAutomine", [false]);
    const answer = await wrapFetchWithPayment(remembering, client)(url);
    expect(answer.status).toBe(500);
    const receipt = answer.headers.get("PAYMENT-RESPONSE") ?? "";
    expect(decodePaymentResponseHeader(receipt)).toEqual(pending(address));
    await decide();
    const headers = { "PAYMENT-SIGNATURE": shown[0] ?? "" };
    const sold = await fetch(url, { headers });
    expect([sold.status, await sold.text()]).toEqual([200, "fine"]);
    expect(shown).toHaveLength(1);
    expect(signTypedData).toHaveBeenCalledTimes(1);
    expect(backend.seen.filter((path) => path === "/official")).toHaveLength(1);
    expect(await chain.balanceOf(address)).toBe(PURSE - PRICE);
  });
});
