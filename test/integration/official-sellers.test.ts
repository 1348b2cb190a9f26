/** Sellers of both versions in one process, with one facilitator of ours behind them, and a buyer for each. */
import { HTTPFacilitatorClient } from "@x402/core/server";
import { ExactEvmScheme as BuyersScheme } from "@x402/evm/exact/client";
import { ExactEvmScheme as SellersScheme } from "@x402/evm/exact/server";
import {
  paymentMiddleware as expressMiddleware,
  x402ResourceServer as ExpressResourceServer,
} from "@x402/express";
import {
  decodePaymentResponseHeader,
  wrapFetchWithPayment as wrapFetchV2,
  x402Client,
} from "@x402/fetch";
import {
  paymentMiddleware as honoMiddleware,
  x402ResourceServer as HonoResourceServer,
} from "@x402/hono";
import { getRequestListener } from "@hono/node-server";
import express from "express";
import { Hono } from "hono";
import { createServer, type RequestListener } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { paymentMiddleware } from "x402-express";
import { decodeXPaymentResponse, wrapFetchWithPayment } from "x402-fetch";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startFacilitator } from "../support/facilitator.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";

const NETWORK = "eip155:84532";
const FUNDS = 5_000_000n;

interface Seller {
  readonly url: string;
  readonly payee: `0x${string}`;
}

const closing = new AsyncDisposableStack();
let chain: Chain;
let sellers: Readonly<Record<keyof typeof SELLERS, Seller>>;

/** A route of version 2, its money taken before the work or after it. */
const routeV2 = (payTo: string, extra = {}) =>
  ({
    "GET /joke": {
      accepts: { scheme: "exact", price: "$0.01", network: NETWORK, payTo, extra },
      description: "A joke",
    },
  }) as const;

const SELLERS = {
  "@x402/express": (payee, url) => {
    const server = new ExpressResourceServer(new HTTPFacilitatorClient({ url }));
    server.register(NETWORK, new SellersScheme());
    const app = express();
    app.use(expressMiddleware(routeV2(payee, { paymentFlow: "upfront" }), server));
    return app.get("/joke", (_request, response) => void response.json({ joke: "express" }));
  },
  "@x402/hono": (payee, url) => {
    const server = new HonoResourceServer(new HTTPFacilitatorClient({ url }));
    server.register(NETWORK, new SellersScheme());
    const app = new Hono();
    app.use(honoMiddleware(routeV2(payee), server));
    app.get("/joke", (context) => context.json({ joke: "hono" }));
    return getRequestListener(app.fetch);
  },
  "x402-express": (payee, url) => {
    const app = express();
    const prices = { "GET /joke": { price: "$0.01", network: "base-sepolia" as const } };
    app.use(paymentMiddleware(payee, prices, { url }));
    return app.get("/joke", (_request, response) => void response.json({ joke: "older" }));
  },
} satisfies Record<string, (payee: Seller["payee"], url: `http://${string}`) => RequestListener>;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  const facilitator = closing.use(await startFacilitator({ chain }));
  const { host } = new URL(facilitator.url);
  const open = Object.entries(SELLERS).map(async ([name, sell]) => {
    const payee = freshAccount().address;
    const server = createServer(sell(payee, `http://${host}`));
    const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
    closing.defer(() => drain(server, AbortSignal.timeout(1_000)));
    return [name, { url: `http://127.0.0.1:${port}/joke`, payee }] as const;
  });
  sellers = Object.fromEntries(await Promise.all(open)) as typeof sellers;
});
afterAll(() => closing.disposeAsync());

async function richBuyer(): Promise<FreshAccount> {
  const buyer = freshAccount();
  await chain.fund(buyer.address, FUNDS);
  return buyer;
}

function clientOf({ account }: FreshAccount): typeof fetch {
  const client = new x402Client().register("eip155:*", new BuyersScheme(account));
  return wrapFetchV2(fetch, client) as typeof fetch;
}

async function buyV2(buyer: FreshAccount, { url }: Seller) {
  const response = await clientOf(buyer)(url);
  const receipt = decodePaymentResponseHeader(response.headers.get("PAYMENT-RESPONSE") ?? "");
  return { status: response.status, body: await response.json(), receipt };
}

async function buyV1(buyer: FreshAccount, { url }: Seller) {
  const response = await wrapFetchWithPayment(fetch, buyer.account)(url, { method: "GET" });
  const receipt = decodeXPaymentResponse(response.headers.get("X-PAYMENT-RESPONSE") ?? "");
  return { status: response.status, body: await response.json(), receipt };
}

describe("sellers of both versions behind one facilitator", () => {
  test("sell at the same time, each for its price, once", async () => {
    const buyers = await Promise.all([richBuyer(), richBuyer(), richBuyer()]);
    const [first, second, third] = buyers;
    const sold = await Promise.all([
      buyV2(first, sellers["@x402/express"]),
      buyV2(second, sellers["@x402/hono"]),
      buyV1(third, sellers["x402-express"]),
    ]);
    expect(sold.map(({ body }) => body)).toEqual([
      { joke: "express" },
      { joke: "hono" },
      { joke: "older" },
    ]);
    const networks = [NETWORK, NETWORK, "base-sepolia"];
    for (const [index, { status, receipt }] of sold.entries()) {
      const payer = buyers[index]?.address;
      expect(status).toBe(200);
      expect(receipt).toMatchObject({ success: true, network: networks[index], payer });
      const mined = await chain.rpc("eth_getTransactionReceipt", [receipt.transaction]);
      expect(mined).toMatchObject({ status: "0x1" });
    }
    for (const { address } of buyers) expect(await chain.balanceOf(address)).toBe(FUNDS - 10_000n);
    for (const { payee } of Object.values(sellers)) {
      expect(await chain.balanceOf(payee)).toBe(10_000n);
    }
  });

  test.each([
    ["@x402/express", "PAYMENT-RESPONSE", { success: false, errorReason: "insufficient_funds" }],
    ["@x402/hono", "PAYMENT-REQUIRED", { x402Version: 2, error: "insufficient_funds" }],
  ] as const)("%s refuses who has not the money, and says so in %s", async (name, header, said) => {
    const { url, payee } = sellers[name];
    const before = await chain.balanceOf(payee);
    const response = await clientOf(freshAccount())(url);
    expect(response.status).toBe(402);
    const text = Buffer.from(response.headers.get(header) ?? "", "base64").toString();
    expect(JSON.parse(text)).toMatchObject(said);
    expect(await chain.balanceOf(payee)).toBe(before);
  });
});
