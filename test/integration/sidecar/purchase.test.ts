/** What a buyer sees, and what reaches the backend, where the data path is another proxy's: real ones, our recipes. */
import { once } from "node:events";
import { request, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { PaymentRequirementsSchema } from "x402/types";
import { WebSocket } from "ws";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { PAYMENT_HEADERS, RECEIPT_HEADERS } from "../../../src/x402/header.ts";
import type { X402Version } from "../../../src/x402/x402.ts";
import { present, PURSE, richBuyer, sign, signInBoth, VERSIONS } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { evmClients } from "../../support/evm-clients.ts";
import { hasProxy, OWN_PROXIES, type OwnProxyName } from "../../support/own-proxy.ts";
import { purchase } from "../../support/purchase.ts";
import { openShop, PUBLIC_URL, type Shop } from "./stage.ts";

/** How each of them is told when a payment counts as delivered. */
const SETTINGS: Readonly<Record<OwnProxyName, string>> = {
  nginx: "delivery: reported, reportWithin: 30s",
  haproxy: "delivery: once",
  caddy: "delivery: repeatable",
};

let chain: Chain;
const shops = new Map<OwnProxyName, Shop>();
const installed = OWN_PROXIES.filter(hasProxy);

beforeAll(async () => {
  chain = await startChain();
  // One after another: processes that start at the same time take each other's time.
  for (const proxy of installed) {
    shops.set(proxy, await openShop({ chain, proxy, settings: SETTINGS[proxy] }));
  }
});

afterAll(async () => {
  for (const shop of shops.values()) await shop[Symbol.asyncDispose]();
  await chain.stop();
});

/** As after its opening. */
function shopBehind(proxy: OwnProxyName): Shop {
  const shop = shops.get(proxy);
  if (shop === undefined) throw new Error(`${proxy} was not started`);
  shop.answers = { status: 200, headers: {} };
  shop.backend.length = 0;
  return shop;
}

function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
}

/** What a client hears to its handshake. */
async function answerTo(socket: WebSocket): Promise<IncomingMessage> {
  const given = Promise.withResolvers<IncomingMessage>();
  socket.once("upgrade", given.resolve);
  socket.once("unexpected-response", (_, response) => given.resolve(response.resume()));
  socket.once("error", given.reject);
  const answer = await given.promise;
  if (answer.statusCode === 101 && socket.readyState !== WebSocket.OPEN) await once(socket, "open");
  return answer;
}

/** What a client hears that sends its body once it is told to, or nobody has told it anything for a while. */
async function expectContinue(
  url: string,
  lines: Readonly<Record<string, string>>,
): Promise<IncomingMessage> {
  const headers = { ...lines, Expect: "100-continue", "Content-Length": BODY.length };
  const sent = request(url, { method: "POST", headers, agent: false });
  const tell = (): void => void sent.end(BODY);
  sent.once("continue", tell).flushHeaders();
  // HAProxy says nothing of it.
  const impatience = setTimeout(tell, IMPATIENCE_MS);
  const [response] = await once(sent, "response");
  clearTimeout(impatience);
  response.resume();
  // What was not asked for is not sent.
  if (!sent.writableEnded) sent.on("error", () => undefined).destroy();
  return response;
}

/** How long a client waits for 100 Continue, milliseconds; curl waits for a second. */
const IMPATIENCE_MS = 500;
const BODY = "what is to be summarized";

/** The versions in which an answer has a receipt. */
function receiptsIn(headers: IncomingHttpHeaders): X402Version[] {
  return VERSIONS.filter((version) => RECEIPT_HEADERS[version].toLowerCase() in headers);
}

/** The names by which the backend heard of payments and receipts, or what looks like them. */
function saidOfPayments({ backend }: Shop): string[] {
  const names = backend.flatMap(({ headers }) => Object.keys(headers));
  return names.filter((name) => /payment|receipt|extension-r/.test(name));
}

/** What of version 2 only coinslot may say. */
const FORGED_V2 = {
  "PAYMENT-REQUIRED": "forged",
  "PAYMENT-RESPONSE": "forged",
  "EXTENSION-RESPONSES": "forged",
};

describe.for(installed)("behind %s", (proxy) => {
  let shop: Shop;

  beforeEach(() => {
    shop = shopBehind(proxy);
  });

  it("the official client buys, and the backend hears who paid and nothing of the payment", async () => {
    const buyer = await richBuyer(chain);
    const bought = await purchase(
      { kind: "evm", key: buyer.privateKey },
      `${shop.url}/weather?a=b`,
    );

    expect(bought).toMatchObject({ status: 200, receipt: { success: true } });
    expect(JSON.parse(bought.body)).toMatchObject({ method: "GET", url: "/weather?a=b" });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
    expect(shop.backend).toHaveLength(1);
    const headers = shop.backend[0]?.headers ?? {};
    expect(headers["x-402-payer"]).toBe(buyer.address);
    expect(headers["x-402-transaction"]).toBe(bought.receipt?.transaction);
    expect(headers["x-402-network"]).toBe("base-sepolia");
    expect(headers["idempotency-key"]).toMatch(/^[0-9a-f]{64}$/);
    expect(Object.keys(headers)).not.toContain("x-payment");
  });

  it("a client of version 2 buys, gets its receipt, and the backend sees neither payment nor receipt", async () => {
    const buyer = await richBuyer(chain);
    const { buy } = evmClients["@x402/fetch 2.27.0 with version 2"] ?? {};
    const bought = await buy?.(`${shop.url}/weather?a=b`, buyer);

    expect(bought).toMatchObject({
      status: 200,
      body: { url: "/weather?a=b" },
      receipt: { success: true, network: "eip155:84532", payer: buyer.address },
    });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
    expect(shop.backend).toHaveLength(1);
    const headers = shop.backend[0]?.headers ?? {};
    expect(headers["x-402-transaction"]).toBe(bought?.receipt["transaction"]);
    expect(saidOfPayments(shop)).toEqual([]);
  });

  it.each(VERSIONS)(
    "a receipt of version %i is in its words, and in no others",
    async (version) => {
      const buyer = await richBuyer(chain);
      const header = await sign(buyer, `${shop.url}/weather`, { version });
      const sold = await present(`${shop.url}/weather`, header, {}, version);
      expect(sold).toMatchObject({ status: 200, receipt: { success: true } });
      expect(receiptsIn(Object.fromEntries(sold.headers))).toEqual([version]);
      expect(sold.headers.get("vary")).toContain(PAYMENT_HEADERS[version]);
    },
  );

  it.each(VERSIONS)(
    "a WebSocket is asked for like anything else, and sold in version %i",
    async (version) => {
      const url = `${shop.url.replace("http", "ws")}/weather`;
      const buyer = await richBuyer(chain);
      const unpaid = await answerTo(new WebSocket(url));
      expect([unpaid.statusCode, receiptsIn(unpaid.headers)]).toEqual([402, []]);
      expect(unpaid.headers["payment-required"]).toMatch(/^eyJ/);
      expect(shop.backend).toEqual([]);
      const header = await sign(buyer, `${shop.url}/weather`, { version });
      const socket = new WebSocket(url, { headers: { [PAYMENT_HEADERS[version]]: header } });
      const paid = await answerTo(socket);
      // The other recipes pass no WebSockets on: there it is sold as what it is without.
      expect(paid.statusCode).toBe(proxy === "haproxy" ? 101 : 200);
      expect(receiptsIn(paid.headers)).toEqual([version]);
      if (proxy === "haproxy") {
        socket.send("hello");
        expect(String((await once(socket, "message"))[0])).toBe("hello");
      }
      socket.terminate();
      expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
      expect(shop.backend).toMatchObject([{ headers: { "x-402-payer": buyer.address } }]);
      expect(saidOfPayments(shop)).toEqual([]);
    },
  );

  it.each(VERSIONS)("a body behind Expect: 100-continue is sold in version %i", async (version) => {
    const url = `${shop.url}/summarize`;
    const buyer = await richBuyer(chain);
    const unpaid = await expectContinue(url, {});
    expect([unpaid.statusCode, receiptsIn(unpaid.headers)]).toEqual([402, []]);
    expect(shop.backend).toEqual([]);
    const header = await sign(buyer, url, { version, init: { method: "POST" } });
    const paid = await expectContinue(url, { [PAYMENT_HEADERS[version]]: header });
    expect([paid.statusCode, receiptsIn(paid.headers)]).toEqual([200, [version]]);
    expect(shop.backend).toMatchObject([{ method: "POST", body: "what is to be summarized" }]);
    expect(saidOfPayments(shop)).toEqual([]);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 20_000n);
  });

  it("a POST with a body is bought as well", async () => {
    const buyer = await richBuyer(chain);
    const body = "text ".repeat(50_000);
    const init = { method: "POST", body };
    const bought = await purchase(
      { kind: "evm", key: buyer.privateKey },
      `${shop.url}/summarize`,
      init,
    );

    expect(bought).toMatchObject({ status: 200, receipt: { success: true } });
    expect(shop.backend).toMatchObject([{ method: "POST", url: "/summarize", body }]);
  });

  it("the backend says what caches may do with what is free, and nothing of what is sold", async () => {
    const steering = {
      "CDN-Cache-Control": "max-age=600",
      "Cloudflare-CDN-Cache-Control": "max-age=600",
      "Surrogate-Control": "max-age=600",
      "Surrogate-Key": "goods",
      "Edge-Control": "max-age=600",
      Expires: "Thu, 01 Jan 2099 00:00:00 GMT",
      Pragma: "public",
    };
    const headers = { ...steering, "Cache-Control": "public, max-age=600" };
    shop.answers = { status: 200, headers: { ...headers, "X-Accel-Expires": "600" } };
    const free = await fetch(`${shop.url}/health`);
    expect(Object.fromEntries(free.headers)).toMatchObject(lowerCase(headers));
    const buyer = await richBuyer(chain);
    const payment = await sign(buyer, `${shop.url}/weather`);
    const sold = await fetch(`${shop.url}/weather`, { headers: { "X-PAYMENT": payment } });
    expect([sold.status, sold.headers.get("cache-control")]).toEqual([200, "private, no-store"]);
    for (const name of [...Object.keys(steering), "X-Accel-Expires"]) {
      expect(sold.headers.get(name), name).toBeNull();
    }
  });

  it("402 is coinslot's own, word by word, and asks for the public address", async () => {
    const response = await fetch(`${shop.url}/weather?city=Oslo`);
    const { x402Version, error, accepts } = Object(await response.json());

    expect(response.status).toBe(402);
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect({ x402Version, error }).toEqual({
      x402Version: 1,
      error: "X-PAYMENT header is required",
    });
    expect(PaymentRequirementsSchema.parse(accepts[0])).toMatchObject({
      resource: `${PUBLIC_URL}/weather?city=Oslo`,
    });
    expect(shop.backend).toEqual([]);
  });

  it("every other refusal comes as it is, too", async () => {
    const ask = async (path: string, init: RequestInit = {}) => {
      const response = await fetch(shop.url + path, init);
      const { error } = Object(await response.json());
      return [response.status, error, response.headers.get("allow")];
    };

    expect(await ask("/admin/users")).toEqual([403, "this path is not served", null]);
    expect(await ask("/nothing")).toEqual([404, "not found", null]);
    expect(await ask("/weather", { method: "DELETE" })).toEqual([
      405,
      "method not allowed",
      "GET, HEAD",
    ]);
    expect(await ask("//weather")).toMatchObject([
      400,
      expect.stringContaining("empty segment"),
      null,
    ]);
    const headers = { "X-PAYMENT": "nonsense" };
    expect(await ask("/weather", { headers })).toMatchObject([
      400,
      expect.stringMatching(/^invalid_payload/),
      null,
    ]);
    expect(shop.backend).toEqual([]);
  });

  it("HEAD of a priced route is 402 without a body, and the connection goes on", async () => {
    const head = await fetch(`${shop.url}/weather`, { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([402, ""]);
    expect((await fetch(`${shop.url}/health`)).status).toBe(200);
  });

  it("the listing is served", async () => {
    const response = await fetch(`${shop.url}/discovery/resources`);
    expect(response.status).toBe(200);
    expect(Object(await response.json()).items).toHaveLength(4);
    expect(shop.backend).toEqual([]);
  });

  it("what only coinslot may say is gone, from the client and from the backend", async () => {
    const forged = {
      "X-402-Payer": "forged",
      "X-402-Transaction": "forged",
      "X-402-Network": "forged",
      "X-402-Pass": "paid",
      "X-PAYMENT-RESPONSE": "forged",
      ...FORGED_V2,
      "X-Original-URI": "/health",
      "X-Original-Method": "GET",
      "X-Forwarded-Uri": "/health",
      "X-Forwarded-Method": "GET",
      "X-Forwarded-For": "192.0.2.7",
    };
    shop.answers = {
      status: 200,
      headers: { "X-PAYMENT-RESPONSE": "forged", "X-402-Payer": "forged", ...FORGED_V2 },
    };
    const free = await fetch(`${shop.url}/health`, { headers: forged });
    const priced = await fetch(`${shop.url}/weather`, { headers: forged });

    expect([free.status, priced.status]).toEqual([200, 402]);
    expect(JSON.stringify([...free.headers])).not.toContain("forged");
    expect(JSON.stringify(shop.backend)).not.toContain("forged");
    expect(shop.backend[0]?.headers["x-forwarded-for"]).toBe("127.0.0.1");
  });

  it("a payment buys the path of its first use, and no other, in whichever version", async () => {
    const buyer = await richBuyer(chain);
    const headers = await signInBoth(buyer, `${shop.url}/reports/1`);
    expect(await present(`${shop.url}/reports/1`, headers[2], {}, 2)).toMatchObject({
      status: 200,
    });
    const other = await present(`${shop.url}/reports/2`, headers[1]);

    expect(other.status).toBe(402);
    expect(other.error).toMatch(/^invalid_payload: .*another resource/);
    expect(shop.backend.map(({ url }) => url)).toEqual(["/reports/1"]);
  });

  it("20 identical payments at once, half of them in each version, are charged once and sold once, as far as the setting says", async () => {
    const buyer = await richBuyer(chain);
    const headers = await signInBoth(buyer, `${shop.url}/weather`);
    const versions = Array.from({ length: 10 }, () => VERSIONS).flat();
    const all = await Promise.all(
      versions.map((version) => present(`${shop.url}/weather`, headers[version], {}, version)),
    );
    const sold = all.filter(({ status }) => status === 200);
    const refused = all.filter(({ status }) => status === 402);
    // Few wait for the one that is under way.
    const told = all.filter(({ status }) => status === 500);

    expect(sold.length + refused.length + told.length).toBe(20);
    for (const { error } of told)
      expect(error).toMatch(/^unexpected_settle_error: the same payment is being/);
    expect(sold.length).toBe(shop.backend.length);
    expect(sold.length).toBeGreaterThanOrEqual(1);
    // Where nobody reports, the same client may ask three times more.
    expect(sold.length).toBeLessThanOrEqual(SETTINGS[proxy].includes("repeatable") ? 4 : 1);
    for (const { error } of refused) expect(error).toMatch(/^invalid_transaction_state: /);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
  });
});

describe("a payment whose request has passed", () => {
  it.skipIf(!hasProxy("nginx"))(
    "is delivered when nginx reports a good answer, and not before",
    async () => {
      const shop = shopBehind("nginx");
      const buyer = await richBuyer(chain);
      const header = await sign(buyer, `${shop.url}/weather`);
      shop.answers = { status: 503, headers: {} };
      expect(await present(`${shop.url}/weather`, header)).toMatchObject({
        status: 503,
        receipt: { success: true },
      });
      shop.answers = { status: 200, headers: {} };
      expect(await present(`${shop.url}/weather`, header)).toMatchObject({ status: 200 });
      expect(await present(`${shop.url}/weather`, header)).toMatchObject({ status: 402 });

      expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
      const metrics = await (await fetch(`${shop.served.adminUrl}/metrics`)).text();
      const count = (code: string, outcome: string) =>
        metrics.split("\n").find((line) => {
          const isOne = line.startsWith("coinslot_http_requests_total{");
          return isOne && line.includes(`code="${code}"`) && line.includes(`="${outcome}"`);
        });
      // What the client got, from the report.
      expect(count("503", "undelivered")).toMatch(/ 1$/);
      expect(count("200", "paid")).toMatch(/ [1-9]/);
    },
  );

  it.skipIf(!hasProxy("nginx"))(
    "may be presented again where its client left before there was an answer",
    async () => {
      const shop = shopBehind("nginx");
      const buyer = await richBuyer(chain);
      const header = await sign(buyer, `${shop.url}/weather`);
      const answering = Promise.withResolvers<void>();
      shop.pause = answering.promise;
      const seen = shop.backend.length;
      const leaving = new AbortController();
      const left = present(`${shop.url}/weather`, header, { signal: leaving.signal });
      await expect.poll(() => shop.backend.length, { timeout: 15_000 }).toBe(seen + 1);
      leaving.abort();
      await expect(left).rejects.toThrow();
      shop.pause = Promise.resolve();
      expect(await present(`${shop.url}/weather`, header)).toMatchObject({ status: 200 });
      answering.resolve();
      expect(await present(`${shop.url}/weather`, header)).toMatchObject({ status: 402 });
      expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
    },
  );

  it.skipIf(!hasProxy("nginx"))(
    "may be presented three times where the backend stays bad",
    async () => {
      const shop = shopBehind("nginx");
      const buyer = await richBuyer(chain);
      const header = await sign(buyer, `${shop.url}/weather`);
      shop.answers = { status: 500, headers: {} };
      const statuses: number[] = [];
      for (let count = 0; count < 4; count += 1) {
        statuses.push((await present(`${shop.url}/weather`, header)).status);
      }
      expect(statuses).toEqual([500, 500, 500, 409]);
      expect(shop.backend).toHaveLength(3);
      expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
    },
  );

  it.skipIf(!hasProxy("caddy"))(
    "may GET the same again three times where nobody reports, and POST once",
    async () => {
      const shop = shopBehind("caddy");
      const buyer = await richBuyer(chain);
      const header = await sign(buyer, `${shop.url}/weather`);
      const statuses: number[] = [];
      for (let count = 0; count < 5; count += 1) {
        statuses.push((await present(`${shop.url}/weather`, header)).status);
      }
      expect(statuses).toEqual([200, 200, 200, 200, 402]);
      const post = { method: "POST", body: "text" };
      const second = await sign(buyer, `${shop.url}/summarize`, { init: post });
      expect(await present(`${shop.url}/summarize`, second, post)).toMatchObject({ status: 200 });
      expect(await present(`${shop.url}/summarize`, second, post)).toMatchObject({ status: 402 });
      expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 30_000n);
    },
  );
});

describe.for(installed)("without coinslot behind %s", (proxy) => {
  it("nothing passes, and afterwards it goes on", async () => {
    const shop = shopBehind(proxy);
    expect((await fetch(`${shop.url}/health`)).status).toBe(200);
    shop.backend.length = 0;
    await shop.served.end("SIGKILL");
    const paths = ["/health", "/weather", "/nothing"];
    const answers = await Promise.all(paths.map((path) => fetch(shop.url + path)));
    for (const { status } of answers) expect(status).toBeGreaterThanOrEqual(500);
    expect(shop.backend).toEqual([]);
    shop.served = await shop.site.serve(shop.yaml, shop.env);
    await shop.served.untilReady();
    expect((await fetch(`${shop.url}/health`)).status).toBe(200);
  });
});

describe.skipIf(!hasProxy("nginx"))("a reload", () => {
  it("changes the prices, and the sidecar's own block needs a restart", async () => {
    const shop = shopBehind("nginx");
    const price = async (): Promise<string> => {
      const { accepts } = Object(await (await fetch(`${shop.url}/weather`)).json());
      return accepts[0].maxAmountRequired;
    };
    const reload = () => fetch(`${shop.served.adminUrl}/-/reload`, { method: "POST" });
    expect(await price()).toBe("10000");
    await shop.site.write(shop.yaml.replace("price: $0.01", "price: $0.03"));
    expect((await reload()).status).toBe(200);
    expect(await price()).toBe("30000");
    const head = (await shop.site.head()).replace("reportWithin: 30s", "reportWithin: 40s");
    await shop.site.writeWhole(head + shop.yaml);
    const refused = await reload();
    expect(refused.ok).toBe(false);
    expect(await refused.text()).toContain("sidecar cannot change while the gateway runs");
    expect(await price()).toBe("30000");
  });
});

// Named so that it is seen what was not tested, and what would change that.
for (const proxy of OWN_PROXIES.filter((each) => !hasProxy(each))) {
  it.skip(`behind ${proxy}: apt-get install ${proxy}`, () => undefined);
}
