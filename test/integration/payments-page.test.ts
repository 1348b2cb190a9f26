import { once } from "node:events";
import { Agent, request, type OutgoingHttpHeaders } from "node:http";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseConfig } from "../../src/config/config.ts";
import { present, quote, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, signPayment } from "../support/payer.ts";

let chain: Chain;
let gateway: RunningGateway;

beforeAll(async () => {
  chain = await startChain();
  gateway = await startGateway({
    chain,
    backend: (request, response) => {
      if (request.url?.startsWith("/reports/broken")) return void response.destroy();
      if (request.url !== "/reports/slow") return void response.end("fine");
      response.write("a part of it");
      setTimeout(() => response.end(", and the rest"), 300);
    },
  });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await chain.stop();
});

async function page(query = ""): Promise<string> {
  return (await fetch(`${gateway.adminUrl}/payments${query}`)).text();
}

/** The entry about a payment for it, without its markup; or about the only question. */
async function entry(title: string): Promise<string> {
  const all = (await page()).split("<li id=").filter((each) => each.includes(`>${title}<`));
  const paid = all.filter((each) => !each.includes("asked to pay"));
  const items = paid.length > 0 ? paid : all;
  expect(items, `entries of ${title}`).toHaveLength(1);
  return (items[0] ?? "").replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
}

/** Asks and pays on one connection, as clients do that keep theirs; fetch may open another one. */
async function buyOnOneConnection(url: string): Promise<Record<string, unknown>> {
  const buyer = await richBuyer(chain);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const ask = async (headers: OutgoingHttpHeaders) => {
    const [answer] = await once(request(url, { headers, agent }).end(), "response");
    return { body: await text(answer), receipt: String(answer.headers["x-payment-response"]) };
  };
  try {
    const [requirements] = JSON.parse((await ask({})).body).accepts;
    const payment = await signPayment({ account: buyer.account, requirements });
    const header = Buffer.from(JSON.stringify(payment)).toString("base64");
    const { receipt } = await ask({ "X-PAYMENT": header });
    return { buyer: buyer.address, ...JSON.parse(atob(receipt)) };
  } finally {
    agent.destroy();
  }
}

describe("the page of payments", () => {
  test("shows no signature, no payment header, no secret of a query and no key of ours", async () => {
    const buyer = await richBuyer(chain);
    const url = `${gateway.url}/weather?city=Oslo&token=hidden-query`;
    const header = await sign(buyer, url);
    expect((await present(url, header)).status).toBe(200);

    const payment: { payload: { signature: string; authorization: { nonce: string } } } =
      JSON.parse(Buffer.from(header, "base64").toString());
    const { nonce } = payment.payload.authorization;
    const shown = (await page()) + (await page(`?show=${nonce}`));
    expect(shown).toContain("Payment: delivered");
    expect(shown).toContain("?city=Oslo&amp;token=…");
    for (const secret of [payment.payload.signature.slice(2, 40), header, "hidden-query"]) {
      expect(shown).not.toContain(secret);
    }
  });

  test("shows a purchase stage by stage, with what was signed and what the ledger says", async () => {
    const { buyer, transaction } = await buyOnOneConnection(`${gateway.url}/reports/stages`);

    const row = await entry("GET /reports/stages");
    expect(row).toMatch(/paid and delivered \(200\)/);
    expect(row).toMatch(
      /402 done [\d.]+ m?s answered 402 payment done [\d.]+ m?s after the 402 verification done [\d.]+ m?s valid settlement done [\d.]+ m?s in transaction \w+….* delivery done [\d.]+ m?s the backend answered 200/,
    );
    expect(row).toContain(`payer ${String(buyer)}`);
    expect(row).toContain("value 250000 (0.25 USDC)");
    expect(row).toContain(String(transaction));
  });

  test("shows a request that nobody paid for, until its own client has paid for it", async () => {
    const url = `${gateway.url}/reports/asked`;
    await quote(url);
    expect(await entry("GET /reports/asked")).toContain("asked to pay (402)");

    await buyOnOneConnection(url);
    const items = (await page()).split("<li id=").filter((each) => each.includes("/reports/asked"));
    // Two asked, from one address: one of them has paid.
    expect(items.map((each) => /class="end">([^<]*)/.exec(each)?.[1])).toEqual([
      "paid and delivered (200)",
      "asked to pay (402)",
    ]);
  });

  test("says why the buyer got nothing for the money, and what can be done", async () => {
    const buyer = await richBuyer(chain);
    const url = `${gateway.url}/reports/broken`;
    expect((await present(url, await sign(buyer, url))).status).toBe(502);

    const text = await entry("GET /reports/broken");
    expect(text).toContain("paid, not delivered (502)");
    expect(text).toContain("delivery failed");
    expect(text).toMatch(/the buyer can send the same payment again from .*; \d attempts? left/);
  });

  test("advises neither to pay again nor to wait where no delivery is left, and what it says is so", async () => {
    const buyer = await richBuyer(chain);
    const url = `${gateway.url}/reports/broken-for-good`;
    const header = await sign(buyer, url);
    for (const status of [502, 502, 502, 409]) {
      expect((await present(url, header)).status).toBe(status);
    }
    const rows = (await page("?find=/reports/broken-for-good")).split("<li id=").slice(1);
    const paid = rows.filter((each) => !each.includes("asked to pay"));
    const undelivered = "paid, not delivered (502)";
    const ends = paid.map((each) => /class="end">([^<]*)/.exec(each)?.[1]);
    expect(ends).toEqual(["payment refused (409)", undelivered, undelivered, undelivered]);
    for (const row of paid) {
      expect(row).toMatch(/signs a new payment: that is not charged, and brings what is owed/);
    }

    // What it says: the new one is not charged, and the delivery is tried again.
    const before = await chain.balanceOf(buyer.address);
    expect((await present(url, await sign(buyer, url))).status).toBe(502);
    expect(await chain.balanceOf(buyer.address)).toBe(before);
  });

  test("advises of an account that the token's issuer has blocked to pay from another one", async () => {
    const buyer = await richBuyer(chain);
    await chain.setBlacklisted(buyer.address, true);
    const url = `${gateway.url}/reports/blocked`;
    expect((await present(url, await sign(buyer, url))).error).toContain("blacklisted");
    const [row = ""] = (await page("?find=/reports/blocked")).split("<li id=").slice(1);
    expect(row).toContain("a new signature of the same one changes nothing");
  });

  test("says of a buyer who left until when the answer is kept, and when it was fetched", async () => {
    const buyer = await richBuyer(chain);
    const url = `${gateway.url}/reports/slow`;
    const header = await sign(buyer, url);
    const leaving = new AbortController();
    const { signal } = leaving;
    const answer = await fetch(url, { headers: { "X-PAYMENT": header }, signal });
    expect(answer.status).toBe(200);
    leaving.abort();
    const row = async () => {
      const rows = (await page("?find=/reports/slow")).split("<li id=");
      return rows.find((each) => /buyer left/.test(each)) ?? "";
    };
    await expect.poll(row).toMatch(/it is kept until 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC/);
    expect(await row()).toContain("paid, and the buyer left (200)");

    expect((await present(url, header)).text).toBe("a part of it, and the rest");
    await expect.poll(row).toContain("Paid and delivered, nothing is left to do");
  });

  test("finds by payer, by path and by what needs the operator, in the row with amount and payer", async () => {
    const buyer = await richBuyer(chain);
    const url = `${gateway.url}/reports/found`;
    await present(url, await sign(buyer, url));
    const broken = `${gateway.url}/reports/broken-once`;
    const header = await sign(buyer, broken);
    await present(broken, header);
    const titles = async (query: string) => {
      const found = (await page(query)).matchAll(/<h2>([^<]*)/g);
      return [...new Set([...found].map(([, title]) => title))];
    };

    const own = ["GET /reports/broken-once", "GET /reports/found"];
    expect(await titles(`?find=${buyer.address.toLowerCase()}`)).toEqual(own);
    expect(await titles(`?find=${buyer.address}&needs=me`)).toEqual([own[0]]);
    expect(await titles("?find=/REPORTS/found")).toEqual([own[1]]);
    expect(await titles("?find=GET%20/reports/found&needs=me")).toEqual([]);
    const needing = await titles("?needs=me");
    expect(needing).toContain(own[0]);
    expect(needing).not.toContain(own[1]);
    expect(await page(`?find=${freshAccount().address}`)).toContain("Nothing here fits that");
    expect(await entry("GET /reports/broken-once")).toContain("0.25 USDC on base-sepolia from 0x");
    const { payload } = JSON.parse(Buffer.from(header, "base64").toString());
    expect(await page(`?find=${payload.authorization.nonce}`)).toContain("Payment: settled");
  });

  test.each([
    ["nonsense", "malformed", "invalid_payload: X-PAYMENT is not base64"],
    [{ value: "1" }, "value", "invalid_exact_evm_payload_authorization_value"],
    [{ validBefore: "1" }, "late", "invalid_exact_evm_payload_authorization_valid_before"],
  ])("names the fault of a payment: %j", async (fault, name, error) => {
    const url = `${gateway.url}/reports/${name}`;
    const buyer = await richBuyer(chain);
    const header = typeof fault === "string" ? fault : await sign(buyer, url, { overrides: fault });
    await present(url, header);

    const items = (await page())
      .split("<li id=")
      .filter((each) => each.includes(`/reports/${name}`));
    expect(items.filter((each) => each.includes(error))).toHaveLength(1);
  });

  test("survives payloads of schemes and networks that are not ours", async () => {
    const url = `${gateway.url}/reports/opaque`;
    const hostile = [
      {
        x402Version: 1,
        scheme: "<script>",
        network: "base-sepolia",
        payload: { authorization: null, signature: 7 },
      },
      { x402Version: 1, scheme: "exact", network: "<img src=x>", payload: { transaction: {} } },
      {
        x402Version: 1,
        scheme: "upto",
        network: "solana",
        payload: { transaction: "x".repeat(9_000) },
      },
    ];
    for (const payment of hostile) {
      const header = Buffer.from(JSON.stringify(payment)).toString("base64");
      expect((await present(url, header)).status).toBe(402);
    }
    const shown = await page();
    expect(shown).toContain("&lt;script&gt;");
    expect(shown).not.toMatch(/<img|<script>(?!\()/);
  });

  test("knows of payments from before this process, and every one by its nonce", async () => {
    const buyer = freshAccount();
    await chain.fund(buyer.address, 1_000_000n);
    const url = `${gateway.url}/weather`;
    const requirements = await quote(url);
    const payment = await signPayment({ account: buyer.account, requirements });
    const { nonce } = payment.payload.authorization;
    await present(url, Buffer.from(JSON.stringify(payment)).toString("base64"));

    const shown = await page(`?show=${nonce}`);
    expect(shown).toContain("Payment: delivered");
    expect(shown).toContain("CLAIMED: GET /weather");
    expect((await fetch(`${gateway.adminUrl}/payments?show=0x00`)).status).toBe(404);
  });

  test("tells a browser what changed, and ends with the gateway", async () => {
    const second = await startGateway({ chain });
    const leaving = new AbortController();
    const answer = await fetch(`${second.adminUrl}/payments/events`, { signal: leaving.signal });
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    let seen = "";
    await fetch(`${second.url}/weather`);
    while (!seen.includes("asked to pay")) seen += (await reader?.read())?.value ?? "";
    expect(seen).toMatch(/event: list\nid: \d+\ndata: \{"items":\[\{"id":"[\w-]+","html":"<li/);

    const ended = second[Symbol.asyncDispose]();
    while ((await reader?.read())?.done !== true);
    await ended;
  });
});

test.each([
  ["127.0.0.1:9402", true],
  ["localhost:9402", true],
  ["'[::1]:9402'", true],
  ["':9402'", false],
  ["0.0.0.0:9402", false],
  ["10.0.0.5:9402", false],
  ["{ address: ':9402', timeline: true }", true],
  ["{ address: 127.0.0.1:9402, timeline: false }", false],
])("with admin: %s the page is shown: %s", (admin, isShown) => {
  const text = `facilitator: { listen: 127.0.0.1:4021, remote: [{ url: https://f.example.com }] }\nadmin: ${admin}\n`;
  const result = parseConfig(text, { file: "x.yaml", env: {}, readFile: () => "" });
  expect(result.ok && result.config.admin?.timeline).toBe(isShown);
});

test("where it is not shown nothing is remembered, and the answer says how to have it", async () => {
  const admin = "admin: { address: 127.0.0.1:0, timeline: false }";
  await using closed = await startGateway({ chain, admin });
  await fetch(`${closed.url}/weather`);
  const answer = await fetch(`${closed.adminUrl}/payments`);
  expect([answer.status, await answer.text()]).toEqual([
    404,
    expect.stringContaining("timeline: true"),
  ]);
  expect(closed.running.telemetry.timeline).toBeUndefined();
});

test("the whole listener answers to addresses and to the names that it was given, and to no other", async () => {
  const admin = "admin: { address: 127.0.0.1:0, hosts: [Gateway] }";
  await using named = await startGateway({ chain, admin });
  const statusAs = async (host: string): Promise<unknown> => {
    const sent = request(`${named.adminUrl}/metrics`, { headers: { host }, agent: false }).end();
    const [answer] = await once(sent, "response");
    answer.resume();
    return answer.statusCode;
  };
  expect(await statusAs("gateway:9402")).toBe(200);
  expect(await statusAs("10.0.0.7:9402")).toBe(200);
  expect(await statusAs("evil.example")).toBe(403);
});
