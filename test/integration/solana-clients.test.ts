/**
 * The official clients of both versions of the protocol buy with a Solana signer, from the gateway's own process: the
 * price moves once, whatever they do, and all that we pay is the network's fee.
 */
import { createServer } from "node:http";
import { address } from "@solana/kit";
import express from "express";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { paymentMiddleware } from "x402-express";
import { decodeXPaymentResponse, wrapFetchWithPayment } from "x402-fetch";
import { PaymentRequirementsSchema } from "x402/types";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { networkOf } from "../../src/x402/network.ts";
import { decodeBase58 } from "../../src/x402/solana-address.ts";
import type { PaymentRequirements } from "../../src/x402/x402.ts";
import { headerJson } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { freshAccount } from "../support/payer.ts";
import {
  buyWithFetch,
  clients,
  createSvmSigner,
  type Client,
  type Shopper,
} from "../support/solana-clients.ts";
import {
  BOND_PRICE,
  MEMO,
  openSolanaShop,
  PRICE,
  PURSE,
  SLOT_MS,
  type SolanaShop,
} from "../support/solana-shop.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import type { SolanaNode } from "../support/solana/solana-node.ts";

/** Two signatures, and the priority that all these clients offer: less than a lamport, rounded up. */
const NETWORK_FEE = 10_001n;
const SIGNATURE_BYTES = 64;

const closing = new AsyncDisposableStack();

afterAll(() => closing.disposeAsync());

/** The transaction as the node tells it. */
async function transactionOf(node: SolanaNode, signature: string) {
  const config = { commitment: "confirmed", maxSupportedTransactionVersion: 0 };
  const call = { jsonrpc: "2.0", id: 1, method: "getTransaction", params: [signature, config] };
  const response = await fetch(node.rpcUrl, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(call),
  });
  const { result } = Object(await response.json());
  const { meta, transaction } = Object(result);
  return {
    error: meta.err,
    fee: BigInt(meta.fee),
    signatures: transaction.signatures,
    keys: transaction.message.accountKeys,
  };
}

interface Sale {
  readonly client: Client;
  readonly path: string;
  readonly mint: string;
  readonly price: bigint;
}

/** Buys, and asserts that exactly the price moved, once, and that we paid exactly the network's fee. */
async function expectSold(
  { node, url, payee, feePayer, network, asked, newShopper }: SolanaShop,
  { client, path, mint, price }: Sale,
): Promise<void> {
  const shopper = await newShopper(mint);
  const buyer = shopper.key.address;
  const paidBefore = await node.tokenBalanceOf(payee, mint);
  const lamportsBefore = node.lamportsOf(feePayer.address);
  const askedBefore = asked.length;

  const { status, body, receipt } = await client(url + path, shopper);

  expect(status).toBe(200);
  expect(body).toEqual({ url: path, served: askedBefore + 1 });
  expect(asked.slice(askedBefore)).toEqual([path]);
  const { caip2 } = networkOf(network);
  expect(receipt).toMatchObject({ success: true, payer: buyer });
  expect([network, caip2]).toContain(receipt["network"]);
  const signature = String(receipt["transaction"]);
  expect(decodeBase58(signature, SIGNATURE_BYTES)).toBeDefined();
  const transaction = await transactionOf(node, signature);
  expect(transaction).toMatchObject({ error: null, fee: NETWORK_FEE });
  expect(transaction.signatures[0]).toBe(signature);
  expect(transaction.keys.slice(0, 2)).toEqual([feePayer.address, buyer]);
  expect(await node.tokenBalanceOf(payee, mint)).toBe(paidBefore + price);
  expect(await node.tokenBalanceOf(buyer, mint)).toBe(PURSE - price);
  expect(node.lamportsOf(feePayer.address)).toBe(lamportsBefore - transaction.fee);
  expect(node.lamportsOf(buyer)).toBe(0n);
}

describe.each(["solana-devnet", "solana"] as const)("on %s", (network) => {
  let shop: SolanaShop;

  beforeAll(async () => {
    shop = closing.use(await openSolanaShop({ network }));
  });

  describe.each(Object.entries(clients))("%s", (_, client) => {
    test("buys with USDC", async () => {
      const path = "/weather?city=Oslo";
      await expectSold(shop, { client, path, mint: shop.usdc, price: PRICE });
    });

    test("buys with a token of the Token-2022 program", async () => {
      await expectSold(shop, { client, path: "/bonds", mint: shop.bond, price: BOND_PRICE });
    });
  });
});

describe("x402-express 1.2.0 with our facilitator behind it", () => {
  test("sells to x402-fetch, and our fee payer pays the network", async () => {
    await using shop = await openSolanaShop({ network: "solana-devnet" });
    const { node, payee, feePayer, network } = shop;
    const app = express();
    const prices = { "GET /joke": { price: "$0.01", network } } as const;
    const { facilitatorUrl } = shop;
    app.use(paymentMiddleware(address(payee), prices, { url: facilitatorUrl }));
    app.get("/joke", (_request, response) => void response.json({ joke: "knock knock" }));
    const server = createServer(app);
    const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
    try {
      const lamportsBefore = node.lamportsOf(feePayer.address);
      const paidBefore = await node.tokenBalanceOf(payee, shop.usdc);
      const response = await buyWithFetch(`http://127.0.0.1:${port}/joke`, await shop.newShopper());
      expect(response.status).toBe(200);
      expect(await response.json()).toEqual({ joke: "knock knock" });
      expect(await node.tokenBalanceOf(payee, shop.usdc)).toBe(paidBefore + PRICE);
      expect(node.lamportsOf(feePayer.address)).toBe(lamportsBefore - NETWORK_FEE);
    } finally {
      await drain(server, AbortSignal.timeout(1_000));
    }
  });
});

/** What the first offer of version 2 says besides. */
async function quotedExtra(url: string): Promise<Readonly<Record<string, unknown>>> {
  const { headers } = await fetch(url);
  const [offer] = headerJson(headers, "PAYMENT-REQUIRED").accepts;
  return offer.extra;
}

describe.each([1, 2])("a quote of %i workers", (workers) => {
  test("tells a blockhash, with which a buyer pays whose node tells none", async () => {
    await using shop = await openSolanaShop({ network: "solana-devnet", workers });
    const url = `${shop.url}/weather?city=Oslo`;
    await using proxy = await startRpcProxy(shop.node.rpcUrl);
    const error = { code: -32_005, message: "not today" };
    proxy.inject({ method: "getLatestBlockhash", error });
    const shopper = { ...(await shop.newShopper()), rpcUrl: proxy.url };
    const client = clients["@x402/fetch 2.27.0 with version 2"] as Client;
    // Each worker hears of it once it was asked.
    const told = async () => {
      const all = await Promise.all(Array.from({ length: 20 }, () => quotedExtra(url)));
      return all.every(({ recentBlockhash }) => typeof recentBlockhash === "string");
    };
    await expect.poll(told, { timeout: 50_000 }).toBe(true);
    expect(await quotedExtra(url)).toEqual({
      feePayer: shop.feePayer.address,
      paymentFlow: "upfront",
      recentBlockhash: expect.stringMatching(/^[1-9A-HJ-NP-Za-km-z]{32,44}$/),
      lastValidBlockHeight: expect.stringMatching(/^[0-9]+$/),
    });
    const body = Object(await (await fetch(url)).json());
    expect(body.accepts).toMatchObject([{ extra: { feePayer: shop.feePayer.address } }]);
    expect(Object.keys(body.accepts[0].extra)).toEqual(["feePayer"]);
    expect(await client(url, shopper)).toMatchObject({ status: 200, receipt: { success: true } });
    expect(proxy.count("getLatestBlockhash")).toBe(0);
    expect(await shop.node.tokenBalanceOf(shopper.key.address, shop.usdc)).toBe(PURSE - PRICE);
  });
});

describe("a route with a memo", () => {
  let shop: SolanaShop;
  let url: string;

  beforeAll(async () => {
    shop = closing.use(await openSolanaShop({ network: "solana-devnet" }));
    url = `${shop.url}/booked`;
  });

  const memoIn = (transaction: string | undefined): boolean =>
    Buffer.from(transaction ?? "", "base64").includes(MEMO);

  test("finds it in what buyers of version 2 pay, and asks those of version 1 for none", async () => {
    expect(await quotedExtra(url)).toEqual({
      feePayer: shop.feePayer.address,
      paymentFlow: "upfront",
      memo: MEMO,
    });
    for (const [name, client] of Object.entries(clients)) {
      const bought = await client(url, await shop.newShopper());
      expect([name, bought.status]).toEqual([name, 200]);
      expect([name, memoIn(shop.node.sent.at(-1))]).toEqual([name, name.startsWith("@x402")]);
    }
  });

  test("refuses a payment of version 2 without it, which costs nobody anything", async () => {
    const shopper = await shop.newShopper();
    const shown: string[] = [];
    const held: typeof fetch = async (input, init) => {
      const header = new Headers(init?.headers).get("X-PAYMENT");
      if (header === null) return fetch(input, init);
      shown.push(header);
      return new Response("{}", { status: 500 });
    };
    await buyWithFetch(url, shopper, held);
    const { payload } = JSON.parse(atob(shown[0] ?? ""));
    const { headers } = await fetch(url);
    const [accepted] = headerJson(headers, "PAYMENT-REQUIRED").accepts;
    const present = async (envelope: object) => {
      const header = btoa(JSON.stringify({ x402Version: 2, payload, ...envelope }));
      const answer = await fetch(url, { headers: { "PAYMENT-SIGNATURE": header } });
      const quoted = headerJson(answer.headers, "PAYMENT-REQUIRED");
      return [answer.status, quoted.error];
    };
    const { memo, ...extra } = accepted.extra;
    expect(memo).toBe(MEMO);
    expect(await present({ accepted })).toEqual([
      402,
      expect.stringContaining("the transaction has no memo; extra.memo asks for exactly one"),
    ]);
    expect(await present({ accepted: { ...accepted, extra } })).toEqual([
      402,
      expect.stringContaining("accepted.extra.memo is not what is asked for here"),
    ]);
    expect(await shop.node.tokenBalanceOf(shopper.key.address, shop.usdc)).toBe(PURSE);
  });
});

/** A `fetch` that holds payments back until so many are signed. */
function holdPayments(count: number, release: () => void) {
  const signed: string[] = [];
  const all = Promise.withResolvers<void>();
  const held: typeof fetch = async (input, init) => {
    const header = new Headers(init?.headers).get("X-PAYMENT");
    if (header !== null && signed.push(header) === count) {
      release();
      all.resolve();
    }
    if (header !== null) await all.promise;
    return fetch(input, init);
  };
  return { signed, held };
}

describe("x402-fetch signs one transaction for two purchases within a slot, and", () => {
  let shop: SolanaShop;

  beforeAll(async () => {
    shop = closing.use(await openSolanaShop({ network: "solana-devnet" }));
  });

  /** Both at once; time stands still until both are signed. */
  async function buyTwice(shopper: Shopper, paths: readonly [string, string]) {
    const { node, url, asked } = shop;
    const askedBefore = asked.length;
    node.setSlotMs(null);
    const { signed, held } = holdPayments(paths.length, () => node.setSlotMs(SLOT_MS));
    const responses = await Promise.all(
      paths.map((path) => buyWithFetch(url + path, shopper, held)),
    );
    expect(new Set(signed).size).toBe(1);
    const [sold, refused] = responses.toSorted((one, other) => one.status - other.status);
    expect([sold?.status, refused?.status]).toEqual([200, 402]);
    const { url: path } = Object(await sold?.json());
    expect(asked.slice(askedBefore)).toEqual([path]);
    const { error } = Object(await refused?.json());
    return { path: String(path), error, header: signed[0] ?? "" };
  }

  test("the second is refused as used: one charge, one delivery", async () => {
    const shopper = await shop.newShopper();
    const { error } = await buyTwice(shopper, ["/weather?city=Oslo", "/weather?city=Bergen"]);
    expect(error).toMatch(/^invalid_transaction_state: .*sign a new one/);
    const left = await shop.node.tokenBalanceOf(shopper.key.address, shop.usdc);
    expect(left).toBe(PURSE - PRICE);
  });

  test("it buys no other resource of the same price, and its own only once", async () => {
    const shopper = await shop.newShopper();
    const { path, error, header } = await buyTwice(shopper, ["/reports/1", "/reports/2"]);
    expect(error).toMatch(/^invalid_payload: .*another resource/);
    const askedBefore = shop.asked.length;
    const again = await fetch(shop.url + path, { headers: { "X-PAYMENT": header } });
    // What was paid for, given again.
    expect([again.status, Object(await again.json()).url]).toEqual([200, path]);
    expect(shop.asked.length).toBe(askedBefore);
    const left = await shop.node.tokenBalanceOf(shopper.key.address, shop.usdc);
    expect(left).toBe(PURSE - PRICE);
  });
});

describe("a gateway that is paid on base-sepolia and on solana-devnet", () => {
  let shop: SolanaShop;
  let chain: Chain;

  beforeAll(async () => {
    chain = closing.use(await startChain());
    shop = closing.use(await openSolanaShop({ network: "solana-devnet", chain }));
  });

  async function richAccount() {
    const buyer = freshAccount();
    await chain.fund(buyer.address, PURSE);
    return buyer;
  }

  /** What has been paid so far, atomic units of USDC. */
  async function paid() {
    const { node, payee, evmPayee, usdc } = shop;
    return { evm: await chain.balanceOf(evmPayee), solana: await node.tokenBalanceOf(payee, usdc) };
  }

  test("offers EVM first, and names its fee payer on Solana", async () => {
    const response = await fetch(`${shop.url}/weather`);
    expect(response.status).toBe(402);
    const accepts: readonly PaymentRequirements[] = Object(await response.json()).accepts;
    expect(accepts.map(({ network }) => network)).toEqual(["base-sepolia", "solana-devnet"]);
    expect(accepts).toMatchObject([
      { payTo: shop.evmPayee, asset: chain.asset, maxAmountRequired: "10000" },
      { payTo: shop.payee, asset: shop.usdc, maxAmountRequired: "10000" },
    ]);
    expect(accepts.map(({ extra }) => extra)).toEqual([
      { name: "USDC", version: "2" },
      { feePayer: shop.feePayer.address },
    ]);
    for (const each of accepts) expect(PaymentRequirementsSchema.parse(each)).toEqual(each);
  });

  test("x402-fetch with an EVM account pays on EVM", async () => {
    const { account, address: payer } = await richAccount();
    const { evm, solana } = await paid();
    const response = await wrapFetchWithPayment(fetch, account)(`${shop.url}/weather`);
    expect(response.status).toBe(200);
    const receipt = decodeXPaymentResponse(response.headers.get("X-PAYMENT-RESPONSE") ?? "");
    expect(receipt).toMatchObject({ success: true, network: "base-sepolia", payer });
    expect(await paid()).toEqual({ evm: evm + PRICE, solana });
  });

  test.each(Object.entries(clients))(
    "%s with a Solana signer pays on Solana",
    async (_, client) => {
      const { evm } = await paid();
      await expectSold(shop, { client, path: "/weather", mint: shop.usdc, price: PRICE });
      expect((await paid()).evm).toBe(evm);
    },
  );

  test("x402-fetch with a signer for each takes the first offer", async () => {
    const { account } = await richAccount();
    const { key, rpcUrl } = await shop.newShopper();
    const { evm, solana } = await paid();
    const signers = { evm: account, svm: await createSvmSigner(key) };
    const config = { svmConfig: { rpcUrl } };
    const pay = wrapFetchWithPayment(fetch, signers, undefined, undefined, config);
    expect((await pay(`${shop.url}/weather`)).status).toBe(200);
    expect(await paid()).toEqual({ evm: evm + PRICE, solana });
  });
});
