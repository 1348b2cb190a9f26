import { create } from "axios";
import { createServer } from "node:http";
import express from "express";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { decodeXPaymentResponse as decodeAxiosResponse, withPaymentInterceptor } from "x402-axios";
import { paymentMiddleware } from "x402-express";
import { decodeXPaymentResponse, wrapFetchWithPayment } from "x402-fetch";
import { createPaymentHeader } from "x402/client";
import { exact } from "x402/schemes";
import { useFacilitator } from "x402/verify";
import { PaymentRequirementsSchema } from "x402/types";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { requirementsFor } from "../support/facilitator.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";

let chain: Chain;
let gateway: RunningGateway;

beforeAll(async () => {
  chain = await startChain();
  gateway = await startGateway({ chain });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await chain.stop();
});

/** A buyer with five dollars and no gas. */
async function richBuyer(): Promise<FreshAccount> {
  const buyer = freshAccount();
  await chain.fund(buyer.address, 5_000_000n);
  return buyer;
}

/** The clients' types want a URL, not any text. */
function facilitatorUrl(): `http://${string}` {
  return `http://${new URL(gateway.facilitatorUrl).host}`;
}

/** Runs a purchase and asserts that exactly `price` moved, once, in the transaction of the receipt. */
async function expectSold(
  buyer: FreshAccount,
  price: bigint,
  buy: () => Promise<{ status: number; receipt: { success: boolean; transaction: string } }>,
): Promise<void> {
  const paidBefore = await chain.balanceOf(gateway.payee);
  const servedBefore = gateway.upstream.length;
  const { status, receipt } = await buy();
  expect(status).toBe(200);
  expect(receipt.success).toBe(true);
  const mined = Object(await chain.rpc("eth_getTransactionReceipt", [receipt.transaction]));
  expect(mined).toMatchObject({ status: "0x1" });
  expect(await chain.balanceOf(gateway.payee)).toBe(paidBefore + price);
  expect(await chain.balanceOf(buyer.address)).toBe(5_000_000n - price);
  expect(gateway.upstream.length).toBe(servedBefore + 1);
}

describe("x402-fetch 1.2.0", () => {
  it("buys a GET with a query", async () => {
    const buyer = await richBuyer();
    await expectSold(buyer, 10_000n, async () => {
      const pay = wrapFetchWithPayment(fetch, buyer.account);
      const response = await pay(`${gateway.url}/weather?city=Oslo`, { method: "GET" });
      expect(await response.json()).toMatchObject({ url: "/weather?city=Oslo" });
      const header = response.headers.get("X-PAYMENT-RESPONSE") ?? "";
      return { status: response.status, receipt: decodeXPaymentResponse(header) };
    });
  });

  it("buys a POST with its body", async () => {
    const buyer = await richBuyer();
    await expectSold(buyer, 20_000n, async () => {
      const pay = wrapFetchWithPayment(fetch, buyer.account);
      const response = await pay(`${gateway.url}/summarize`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ text: "a b c" }),
      });
      expect(await response.json()).toMatchObject({ body: '{"text":"a b c"}' });
      const header = response.headers.get("X-PAYMENT-RESPONSE") ?? "";
      return { status: response.status, receipt: decodeXPaymentResponse(header) };
    });
  });
});

describe("x402-axios 0.7.2", () => {
  it("buys a GET with a query", async () => {
    const buyer = await richBuyer();
    await expectSold(buyer, 10_000n, async () => {
      const client = withPaymentInterceptor(create({ baseURL: gateway.url }), buyer.account);
      const response = await client.get("/weather?city=Oslo");
      expect(response.data).toMatchObject({ url: "/weather?city=Oslo" });
      const receipt = decodeAxiosResponse(String(response.headers["x-payment-response"]));
      return { status: response.status, receipt };
    });
  });

  it("buys a POST with its body", async () => {
    const buyer = await richBuyer();
    await expectSold(buyer, 20_000n, async () => {
      const client = withPaymentInterceptor(create({ baseURL: gateway.url }), buyer.account);
      const response = await client.post("/summarize", { text: "a b c" });
      expect(response.data).toMatchObject({ body: '{"text":"a b c"}' });
      const receipt = decodeAxiosResponse(String(response.headers["x-payment-response"]));
      return { status: response.status, receipt };
    });
  });
});

describe("the facilitator callers of x402 1.2.0", () => {
  it("useFacilitator verifies, settles and reads /supported", async () => {
    const buyer = await richBuyer();
    const requirements = PaymentRequirementsSchema.parse(
      requirementsFor(chain, { payTo: gateway.payee }),
    );
    const header = await createPaymentHeader(buyer.account, 1, requirements);
    const payment = exact.evm.decodePayment(header);
    const facilitator = useFacilitator({ url: facilitatorUrl() });

    expect(await facilitator.verify(payment, requirements)).toMatchObject({
      isValid: true,
      payer: buyer.address,
    });
    const paidBefore = await chain.balanceOf(gateway.payee);
    const settled = await facilitator.settle(payment, requirements);
    expect(settled).toMatchObject({ success: true, network: "base-sepolia" });
    expect(await chain.balanceOf(gateway.payee)).toBe(paidBefore + 10_000n);
    expect(await facilitator.supported()).toEqual({
      kinds: [
        { x402Version: 1, scheme: "exact", network: "base-sepolia" },
        { x402Version: 2, scheme: "exact", network: "eip155:84532" },
      ],
      extensions: [],
      signers: { "eip155:*": [gateway.signer] },
      finalRefusals: ["base-sepolia"],
    });
    expect(await facilitator.settle(payment, requirements)).toMatchObject({
      success: false,
      errorReason: "invalid_transaction_state",
    });
  });

  it("x402-express sells with our facilitator behind it", async () => {
    const buyer = await richBuyer();
    const app = express();
    const prices = { "GET /joke": { price: "$0.01", network: "base-sepolia" as const } };
    app.use(paymentMiddleware(gateway.payee, prices, { url: facilitatorUrl() }));
    app.get("/joke", (_request, response) => void response.json({ joke: "knock knock" }));
    const server = createServer(app);
    const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
    try {
      const paidBefore = await chain.balanceOf(gateway.payee);
      const pay = wrapFetchWithPayment(fetch, buyer.account);
      const response = await pay(`http://127.0.0.1:${port}/joke`, { method: "GET" });
      expect(response.status).toBe(200);
      expect(await response.json()).toEqual({ joke: "knock knock" });
      expect(await chain.balanceOf(gateway.payee)).toBe(paidBefore + 10_000n);
    } finally {
      await drain(server, AbortSignal.timeout(1_000));
    }
  });
});
