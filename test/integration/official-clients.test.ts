import { create } from "axios";
import { once } from "node:events";
import { lookup } from "node:dns";
import { createServer, request } from "node:http";
import { text } from "node:stream/consumers";
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from "undici";
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
import { present, PURSE, sign, VERSIONS } from "../support/buyer.ts";
import { evmClients } from "../support/evm-clients.ts";
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

describe("hosts of one file", () => {
  const ROUTES = "\n  GET /weather: { price: $0.01, description: Weather }\n";
  const dearPayee = freshAccount().address;
  const hosts = (price: string, others = "") => `
hosts:
  dear.localhost:
    payTo: "${dearPayee}"
    paywall: { brand: Dear }
    cors: true
    unmatched: free
    discovery: { llms: true }
    routes:
      GET /weather: { price: ${price}, description: Dear weather }
  twin.localhost:
    routes:
      GET /weather: { price: $0.01, description: Weather of the twin }
      GET /old: { price: $0.01, description: What has moved }
  "*.many.localhost":
    publicUrl: http://www.many.localhost:8402
    routes: { GET /weather: { price: $0.02, description: Weather for many } }
${others}`;
  const before = getGlobalDispatcher();
  let shop: RunningGateway;

  beforeAll(async () => {
    // Not every system knows that all names below localhost are this machine.
    const here: typeof lookup = ((name: string, options: object, done: never) =>
      lookup(name.endsWith(".localhost") ? "127.0.0.1" : name, options, done)) as typeof lookup;
    setGlobalDispatcher(new Agent({ connect: { lookup: here } }));
    shop = await startGateway({
      chain,
      routes: ROUTES,
      more: hosts("$0.03"),
      backend: (asked, response) => {
        const location = asked.url === "/old" ? { Location: "/weather" } : {};
        const head = { "Content-Type": "application/json", ...location };
        response.writeHead(asked.url === "/old" ? 302 : 200, head);
        response.end(JSON.stringify({ url: asked.url }));
      },
    });
  });

  afterAll(async () => {
    setGlobalDispatcher(before);
    await shop[Symbol.asyncDispose]();
  });

  const at = (name: string, path = "/weather") => shop.url.replace("127.0.0.1", name) + path;

  /** By lines that no client of the web would send. */
  async function ask(headers: readonly string[], path = "/weather") {
    const { port } = new URL(shop.url);
    const asked = request({ host: "127.0.0.1", port, path, headers, agent: false });
    asked.end();
    const [response] = await once(asked, "response");
    return { status: Number(response.statusCode), body: await text(response) };
  }

  /** Or the status, where no price is asked. */
  async function resourceAt(host: string): Promise<unknown> {
    const { status, body } = await ask(["Host", host, "Connection", "close"]);
    return status === 402 ? JSON.parse(body).accepts[0].resource : status;
  }

  it.each(
    Object.entries(evmClients)
      .filter(([name]) => name.includes("fetch"))
      .flatMap(([name, { buy }]) => ["twin", "dear"].map((host) => [name, host, buy] as const)),
  )("%s buys at %s by its price, and that one is paid", async (_name, host, buy) => {
    const buyer = await richBuyer();
    const isDear = host === "dear";
    const [price, payee] = isDear ? [30_000n, dearPayee] : [10_000n, shop.payee];
    const paidBefore = await chain.balanceOf(payee);
    const bought = await buy(at(`${host}.localhost`), buyer);
    expect(bought).toMatchObject({ status: 200, receipt: { success: true } });
    expect(await chain.balanceOf(payee)).toBe(paidBefore + price);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - price);
    const metrics = await (await fetch(`${shop.adminUrl}/metrics`)).text();
    const sold = `settled_amount_total\\{route="${host}\\.localhost GET /weather",[^}]*\\} 0\\.0[1-9]`;
    expect(metrics).toMatch(new RegExp(sold));
  });

  it("are told apart by Host alone, however it is spelt, and others are not answered", async () => {
    const [twin, dear, own] = ["twin.", "dear.", ""].map(
      (name) => `http://${name}localhost:8402/weather`,
    );
    expect(await resourceAt("twin.localhost")).toBe(twin);
    for (const host of ["dear.localhost:1", "DEAR.LocalHost", "dear.localhost."]) {
      expect(await resourceAt(host)).toBe(dear);
    }
    expect(await resourceAt("a.b.many.localhost")).toBe("http://www.many.localhost:8402/weather");
    for (const host of ["127.0.0.1", "localhost", ""]) expect(await resourceAt(host)).toBe(own);
    for (const host of ["dear.localhost.example", "other.example"]) {
      expect(await resourceAt(host)).toBe(421);
    }
    expect((await ask(["Host", "twin.localhost", "Host", "dear.localhost"])).status).toBe(400);
    const { body } = await ask(["Host", "dear.localhost", "X-Forwarded-Host", "twin.localhost"]);
    expect(JSON.parse(body).accepts[0].resource).toBe(dear);
    // A whole URL names the host as well, and both have to be the same.
    const whole = "http://twin.localhost:8402/weather";
    expect((await ask(["Host", "dear.localhost"], whole)).status).toBe(400);
    expect((await ask(["Host", "twin.localhost:8402"], whole)).status).toBe(402);
  });

  it("have what is not sold, documents, cross-origin rules and listings of their own", async () => {
    const head = async (name: string, path: string) => {
      const { status, headers } = await fetch(at(`${name}localhost`, path), {
        headers: { Origin: "http://x.example" },
      });
      return [status, headers.get("access-control-allow-origin")];
    };
    expect(await head("dear.", "/nowhere")).toEqual([200, null]);
    expect(await head("twin.", "/nowhere")).toEqual([404, null]);
    expect(await head("", "/nowhere")).toEqual([404, null]);
    expect(await head("dear.", "/weather")).toEqual([402, "*"]);
    expect(await head("twin.", "/weather")).toEqual([402, null]);
    expect(await head("dear.", "/llms.txt")).toEqual([200, "*"]);
    expect(await head("twin.", "/llms.txt")).toEqual([404, null]);
    const listed = async (base: string): Promise<unknown> => {
      const { items } = Object(await (await fetch(`${base}/discovery/resources`)).json());
      const names = items.map(({ resource }: { resource: string }) => new URL(resource).hostname);
      return [...new Set<string>(names)].toSorted((one, other) => one.localeCompare(other));
    };
    expect(await listed(at("dear.localhost", ""))).toEqual(["dear.localhost"]);
    expect(await listed(at("localhost", ""))).toEqual(["localhost"]);
    const all = ["dear.localhost", "localhost", "twin.localhost", "www.many.localhost"];
    expect(await listed(shop.facilitatorUrl)).toEqual(all);
    const page = await fetch(at("dear.localhost"), { headers: { Accept: "text/html" } });
    expect(await page.text()).toContain("Dear");
  });

  it.each(VERSIONS)(
    "take no payment of version %i that was for another, at the same price for the same path",
    async (version) => {
      const buyer = await richBuyer();
      const header = await sign(buyer, at("localhost"), { version });
      const show = (name: string) => present(at(name), header, {}, version);
      expect(await show("localhost")).toMatchObject({ status: 200 });
      const served = shop.upstream.length;
      const error = expect.stringContaining("another resource");
      expect(await show("twin.localhost")).toMatchObject({ status: 402, error });
      expect(await show("dear.localhost")).toMatchObject({ status: 402 });
      expect(shop.upstream.length).toBe(served);
      expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
    },
  );

  it("lead a payment on by a redirect to the target at the same host alone", async () => {
    const buyer = await richBuyer();
    const header = await sign(buyer, at("twin.localhost", "/old"));
    const old = async () => {
      const shown = { headers: { "X-PAYMENT": header }, redirect: "manual" } as const;
      const { status, headers } = await fetch(at("twin.localhost", "/old"), shown);
      return [status, headers.get("location")];
    };
    expect(await old()).toEqual([302, "/weather"]);
    expect(await present(at("localhost"), header)).toMatchObject({ status: 402 });
    expect(await present(at("twin.localhost"), header)).toMatchObject({ status: 200 });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
    // Asked for once more where it was bought: he is led to what he has had.
    expect(await old()).toEqual([307, "/weather"]);
  });

  it("come, go and change by a reload; what was asked for at one may still be paid there", async () => {
    const buyer = await richBuyer();
    const header = await sign(buyer, at("dear.localhost"));
    const more = "  new.localhost:\n    routes: { GET /weather: $0.02 }\n";
    const own = "http://localhost:8402/weather";
    expect(await resourceAt("new.localhost")).toBe(own);
    expect(await shop.reroute(ROUTES, hosts("$0.05", more))).toBe(true);
    expect(await resourceAt("new.localhost")).toBe("http://new.localhost:8402/weather");
    expect(await present(at("twin.localhost"), header)).toMatchObject({ status: 402 });
    expect(await present(at("dear.localhost"), header)).toMatchObject({ status: 200 });
    expect(await shop.reroute(ROUTES, "")).toBe(true);
    expect(await resourceAt("dear.localhost")).toBe(own);
  });
});
