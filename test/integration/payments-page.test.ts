import { once } from "node:events";
import { request } from "node:http";
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
      if (request.url === "/reports/broken") response.destroy();
      else response.end("fine");
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

/** The entry about a request, without its markup. */
async function entry(title: string): Promise<string> {
  const items = (await page()).split("<li id=").filter((each) => each.includes(`>${title}<`));
  expect(items, `entries of ${title}`).toHaveLength(1);
  return (items[0] ?? "").replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
}

describe("the page of payments", () => {
  test("shows no signature, no payment header, no query and no key of ours", async () => {
    const buyer = await richBuyer(chain);
    const url = `${gateway.url}/weather?token=hidden-query`;
    const header = await sign(buyer, url);
    expect((await present(url, header)).status).toBe(200);

    const payment: { payload: { signature: string; authorization: { nonce: string } } } =
      JSON.parse(Buffer.from(header, "base64").toString());
    const { nonce } = payment.payload.authorization;
    const shown = (await page()) + (await page(`?show=${nonce}`));
    expect(shown).toContain("Payment: delivered");
    for (const secret of [payment.payload.signature.slice(2, 40), header, "hidden-query"]) {
      expect(shown).not.toContain(secret);
    }
  });

  test("shows a purchase stage by stage, with what was signed and what the ledger says", async () => {
    const buyer = await richBuyer(chain);
    const url = `${gateway.url}/reports/stages`;
    const { receipt } = await present(url, await sign(buyer, url));

    const text = await entry("GET /reports/stages");
    expect(text).toMatch(/paid and delivered \(200\)/);
    expect(text).toMatch(
      /402 done [\d.]+ m?s answered 402 payment done [\d.]+ m?s after the 402 verification done [\d.]+ m?s valid settlement done [\d.]+ m?s in transaction \w+….* delivery done [\d.]+ m?s the backend answered 200/,
    );
    expect(text).toContain(`payer ${buyer.address}`);
    expect(text).toContain("value 250000 (0.25 USDC)");
    expect(text).toContain(String(receipt?.["transaction"]));
  });

  test("shows a request that nobody paid for, until it is paid for", async () => {
    const url = `${gateway.url}/reports/asked`;
    await quote(url);
    expect(await entry("GET /reports/asked")).toContain("asked to pay (402)");

    const buyer = await richBuyer(chain);
    const header = await sign(buyer, url);
    await present(url, header);
    const items = (await page()).split("<li id=").filter((each) => each.includes("/reports/asked"));
    // The first question was asked twice: one of them is what the payment answers.
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
