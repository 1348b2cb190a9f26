/** A route that is charged by use, with all real parts: what is left of a payment is its buyer's when his answer was given. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { get, type RequestListener } from "node:http";
import { text } from "node:stream/consumers";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { X402_VERSION_2, type X402Version } from "../../src/x402/x402.ts";
import { PAYMENT_HEADERS } from "../../src/x402/header.ts";
import { headerJson, present, PURSE, richBuyer, sign, VERSIONS } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { evmClients } from "../support/evm-clients.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { modelBackend } from "../support/model-backend.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";
import { openSessionAt } from "../support/sign-in.ts";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { balanceIn } from "../support/prepaid.ts";

const MAX = 10_000n;
const METER = `{ of: [json("usage.total_tokens"), sse("usage.total_tokens"), header(X-Usage)], each: $0.000002, max: $0.01 }`;
const ROUTES = `
  POST /v1/chat/completions: { meter: ${METER}, description: A model }
  GET /v1/chat/completions: { meter: ${METER}, description: A model }
  POST /v1/prepaid: { meter: ${METER}, description: A model, credits: true }
`;

const closing = new AsyncDisposableStack();
const storePath = join(tmpdir(), `coinslot-metered-${randomUUID()}`, "ledger.db");
const model = modelBackend();
let chain: Chain;
let gateway: RunningGateway;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  const more = "credits: { packs: [$1] }\ndiscovery: { openapi: true, llms: true }";
  const { listener: backend } = model;
  gateway = closing.use(await startGateway({ chain, routes: ROUTES, more, storePath, backend }));
});

afterAll(() => closing.disposeAsync());

const place = () => `${gateway.url}/v1/chat/completions`;
const asking = (body: object): RequestInit => ({ method: "POST", body: JSON.stringify(body) });

interface Sold {
  readonly buyer: FreshAccount;
  readonly header: string;
  readonly version: X402Version;
}

async function signed(version: X402Version = X402_VERSION_2, init = asking({})): Promise<Sold> {
  const buyer = await richBuyer(chain);
  return { buyer, version, header: await sign(buyer, place(), { version, init }) };
}

const buy = ({ header, version }: Sold, body: object) =>
  present(place(), header, asking(body), version);

/** What is in the balance, once the end of the delivery is written. */
async function changeOf({ buyer }: Pick<Sold, "buyer">, amount: bigint): Promise<void> {
  await vi.waitFor(() => expect(balanceIn(storePath, buyer.address)).toBe(amount));
}

/** As the receipt's own URL tells it. */
const statusOf = (answer: { readonly headers: Headers }) => statusAt(gateway.url, answer);

async function statusAt(at: string, answer: { readonly headers: Headers }): Promise<object> {
  const link = /<([^>]+)>/.exec(answer.headers.get("Link") ?? "")?.[1] ?? "";
  const url = new URL(link);
  return Object(await (await fetch(at + url.pathname)).json());
}

/** As a browser is shown it: `fetch` says that it is none. */
async function pageOf(url: string): Promise<string> {
  const asked = get(url, { headers: { Accept: "text/html", "User-Agent": "Mozilla/5.0" } });
  const [response] = await once(asked, "response");
  return text(response);
}

async function metric(line: string): Promise<string | undefined> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  return text
    .split("\n")
    .find((each) => each.startsWith(line))
    ?.split(" ")
    .at(-1);
}

describe("what was used is charged, and the rest is in the buyer's balance", () => {
  it.each(VERSIONS)("of JSON, version %i", async (version) => {
    const sold = await signed(version);
    const answer = await buy(sold, { tokens: 1234 });
    expect(answer.status).toBe(200);
    expect(await chain.balanceOf(sold.buyer.address)).toBe(PURSE - MAX);
    await changeOf(sold, MAX - 2_468n);
    expect(await statusOf(answer)).toMatchObject({
      state: "delivered",
      amount: "10000",
      metered: { charged: "2468", change: "7532", usage: "1234", reason: null },
    });
    // It is whole before its head goes out.
    expect(answer.headers.get("X-402-Charged")).toBe("0.002468 USDC");
    expect(answer.headers.get("X-402-Usage")).toBe("1234");
  });

  it("of events, as they pass", async () => {
    const sold = await signed();
    const headers = { [PAYMENT_HEADERS[sold.version]]: sold.header };
    const body = {
      stream: true,
      stream_options: { include_usage: true },
      tokens: 500,
      how: "holds",
    };
    const answer = await fetch(place(), { ...asking(body), headers });
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    // What the backend has written is there while it works on.
    let said = String((await reader?.read())?.value);
    expect(said).toContain('"content":"The"');
    expect(answer.headers.get("X-402-Charged")).toBeNull();
    expect(model.release()).toBe(true);
    for (;;) {
      const { value, done = true } = (await reader?.read()) ?? {};
      if (done) break;
      said += String(value);
    }
    expect(said).toContain("[DONE]");
    await changeOf(sold, MAX - 1_000n);
    expect(await statusOf(answer)).toMatchObject({ metered: { charged: "1000", usage: "500" } });
  });

  it("of a header, and what that costs is told in the answer's own", async () => {
    const sold = await signed();
    const answer = await buy(sold, { how: "header", tokens: 7 });
    expect(answer.headers.get("X-402-Charged")).toBe("0.000014 USDC");
    await changeOf(sold, MAX - 14n);
  });

  it("all of it where nothing was used", async () => {
    const sold = await signed();
    expect((await buy(sold, { tokens: 0 })).headers.get("X-402-Charged")).toBe("0 USDC");
    await changeOf(sold, MAX);
  });

  it("the backend is asked for an answer that can be read", async () => {
    const sold = await signed();
    const init = { ...asking({ tokens: 1 }), headers: { "Accept-Encoding": "br" } };
    await present(place(), sold.header, init, sold.version);
    expect(gateway.upstream.at(-1)?.headers["accept-encoding"]).toBe("identity");
  });
});

describe("all that was paid is charged, and never more, and it is said why", () => {
  it.each([
    ["above-max", { tokens: 5_001 }],
    ["above-max", { tokens: 1e30 }],
    ["no-number", { tokens: -1 }],
    ["no-number", { tokens: "12" }],
    ["absent", { how: "no usage" }],
    ["absent", { stream: true, tokens: 5 }],
    ["encoded", { how: "encoded" }],
  ])("%s: %j", async (reason, body) => {
    const sold = await signed();
    const label = `coinslot_metered_answers_total{route="POST /v1/chat/completions",reason="${reason}"}`;
    const before = Number((await metric(label)) ?? 0);
    const answer = await buy(sold, body);
    expect(answer.status).toBe(200);
    await vi.waitFor(async () => {
      expect(await statusOf(answer)).toMatchObject({
        state: "delivered",
        metered: { charged: "10000", change: "0", reason },
      });
    });
    expect(balanceIn(storePath, sold.buyer.address)).toBe(0n);
    expect(await chain.balanceOf(sold.buyer.address)).toBe(PURSE - MAX);
    expect(Number(await metric(label))).toBe(before + 1);
  });
});

describe("what fails costs nothing", () => {
  it("and is owed: the same payment has the next answer, and its change once", async () => {
    const sold = await signed();
    expect((await buy(sold, { how: "fails" })).status).toBe(503);
    const answer = await buy(sold, { tokens: 100 });
    expect(answer.status).toBe(200);
    await changeOf(sold, MAX - 200n);
    // Given again as it was kept, and neither charged nor credited for that.
    const again = await buy(sold, { tokens: 100 });
    expect([again.status, again.text]).toEqual([200, answer.text]);
    expect(again.headers.get("X-402-Charged")).toBe("0.0002 USDC");
    expect((await buy(sold, { tokens: 1 })).status).toBe(402);
    expect(balanceIn(storePath, sold.buyer.address)).toBe(MAX - 200n);
    expect(await chain.balanceOf(sold.buyer.address)).toBe(PURSE - MAX);
  });

  it("as an answer does that its backend breaks off", async () => {
    const sold = await signed();
    const broken = buy(sold, { stream: true, how: "breaks" }).catch(() => "broken");
    await vi.waitFor(() => expect(model.release()).toBe(true));
    expect(await broken).toBe("broken");
    expect(balanceIn(storePath, sold.buyer.address)).toBe(0n);
    expect((await buy(sold, { tokens: 100 })).status).toBe(200);
    await changeOf(sold, MAX - 200n);
  });
});

/** More than fits on the way to somebody who has left: that he has is noticed before the answer is over. */
const PADDING = 16 * 1024 * 1024;

describe("a buyer who leaves in the middle", () => {
  const leave = async (sold: Sold, body: object): Promise<void> => {
    const leaving = new AbortController();
    const headers = { [PAYMENT_HEADERS[sold.version]]: sold.header };
    const asked = asking({ stream: true, padding: PADDING, ...body });
    const init = { ...asked, headers, signal: leaving.signal };
    const answer = await fetch(place(), init);
    await answer.body?.getReader().read();
    leaving.abort();
  };

  it("has bought it for what it has used, which is read on for him", async () => {
    const sold = await signed();
    await leave(sold, { tokens: 50, how: "holds", stream_options: { include_usage: true } });
    expect(model.release()).toBe(true);
    await changeOf(sold, MAX - 100n);
    expect((await buy(sold, { tokens: 1 })).status).toBe(402);
  });

  it("has not, where the backend breaks it off then", async () => {
    const sold = await signed();
    await leave(sold, { how: "breaks" });
    expect(model.release()).toBe(true);
    await vi.waitFor(async () => expect((await buy(sold, { tokens: 1 })).status).toBe(200));
    await changeOf(sold, MAX - 2n);
  });
});

describe("from a balance", () => {
  const prepaid = () => `${gateway.url}/v1/prepaid`;
  const rich = freshAccount();

  const sessionOf = (): Promise<string> => openSessionAt(gateway.url, rich);

  it("the most is reserved, and what was used is debited", async () => {
    await chain.fund(rich.address, PURSE);
    const header = await sign(rich, `${gateway.url}/.x402/credits/1`, { init: { method: "POST" } });
    const bought = await present(`${gateway.url}/.x402/credits/1`, header, { method: "POST" });
    expect(bought.status).toBe(200);
    const session = { [SESSION_HEADER]: await sessionOf() };
    const ask = (body: object, more: RequestInit = {}) =>
      fetch(prepaid(), { ...asking(body), headers: session, ...more });
    const left = (amount: bigint) => changeOf({ buyer: rich }, 1_000_000n - amount);

    const answer = await ask({ tokens: 1234 });
    expect([answer.status, answer.headers.get("X-402-Charged")]).toEqual([200, "0.002468 USDC"]);
    await left(2_468n);
    const told = { include_usage: true };
    const events = await ask({ stream: true, tokens: 500, stream_options: told });
    expect(await events.text()).toContain("[DONE]");
    await left(3_468n);
    // More than the most is the most, and so is what nobody knows.
    await (await ask({ tokens: 1e30 })).text();
    await left(13_468n);
    await (await ask({ how: "no usage" })).text();
    await left(23_468n);
    // What fails and what breaks off costs nothing.
    expect((await ask({ how: "fails" })).status).toBe(503);
    const broken = ask({ stream: true, how: "breaks" }).then((each) => each.text());
    const cut = broken.catch(() => "cut");
    await vi.waitFor(() => expect(model.release()).toBe(true));
    expect(await cut).toBe("cut");
    await (await ask({ tokens: 1 })).text();
    await left(23_470n);
    // Who leaves has bought what he has begun, which is read on for him.
    const leaving = new AbortController();
    const begun = await ask(
      { stream: true, tokens: 50, how: "holds", padding: PADDING, stream_options: told },
      { signal: leaving.signal },
    );
    await begun.body?.getReader().read();
    leaving.abort();
    expect(model.release()).toBe(true);
    await left(23_570n);
    expect(await chain.balanceOf(rich.address)).toBe(PURSE - 1_000_000n);
  });
});

it("is asked for as a maximum, and by what it is charged", async () => {
  const answer = await fetch(place(), asking({}));
  const { accepts } = Object(await answer.json());
  expect(accepts[0]).toMatchObject({ maxAmountRequired: "10000" });
  const sentence =
    "Charged by use, at most $0.01: $0.000002 for each of usage.total_tokens or x-usage";
  expect(accepts[0].description).toContain(sentence);
  const told = headerJson(answer.headers, "PAYMENT-REQUIRED");
  expect(told.resource.description).toContain(sentence);
  expect(told.extensions.metered.info).toEqual({
    of: ['json("usage.total_tokens")', 'sse("usage.total_tokens")', 'header("x-usage")'],
    each: "$0.000002",
    max: "$0.01",
  });
});

it("is told so wherever it is listed", async () => {
  const read = async (path: string) => (await fetch(gateway.url + path)).text();
  const listing = await read("/discovery/resources");
  expect(listing).toContain('"meter":{"of":["json(');
  expect(listing).toContain("Charged by use, at most $0.01");
  expect(await read("/llms.txt")).toContain("Charged by use, at most $0.01");
  const operation = Object(JSON.parse(await read("/openapi.json"))).paths["/v1/chat/completions"];
  const { price } = operation.post["x-payment-info"];
  expect(price).toMatchObject({ mode: "dynamic", min: "0", max: "0.01" });
  expect(await pageOf(place())).toContain("Charged by use, at most $0.01");
});

it.each(Object.entries(evmClients))("is bought by %s", async (_name, { buy: purchase }) => {
  const buyer = await richBuyer(chain);
  const { status, receipt } = await purchase(place(), buyer, { tokens: 321 });
  expect([status, receipt["success"]]).toEqual([200, true]);
  await changeOf({ buyer }, MAX - 642n);
  expect(await chain.balanceOf(buyer.address)).toBe(PURSE - MAX);
});

it("is counted, and in the books as on the chain", async () => {
  const labels = `route="POST /v1/chat/completions",network="base-sepolia",asset="USDC"`;
  const charged = Number(await metric(`coinslot_metered_amount_total{${labels},part="charged"}`));
  const change = Number(await metric(`coinslot_metered_amount_total{${labels},part="change"}`));
  // Beside the pack of a dollar.
  const onChain = (await chain.balanceOf(gateway.payee)) - 1_000_000n;
  expect(BigInt(Math.round((charged + change) * 1e6))).toBe(onChain);
});

describe("by a route that is not charged by use any more", () => {
  const more = "credits: { packs: [$1] }";
  const meter = (max: string) =>
    `\n  POST /v1/chat/completions: { meter: { of: json("usage.total_tokens"), each: $0.000002, max: ${max} } }\n`;
  const rest = async (path: string, { address }: FreshAccount, left: bigint) =>
    vi.waitFor(() => expect(balanceIn(path, address)).toBe(left));

  it.each(
    ["price: $0.01", "price: $0.01, settle: after"].flatMap((now) =>
      VERSIONS.map((version) => [now, version] as const),
    ),
  )("costs what is asked there by now: %s, version %i", async (now, version) => {
    const path = join(tmpdir(), `coinslot-metered-${randomUUID()}`, "ledger.db");
    const { listener } = model;
    let isDown = false;
    const backend: RequestListener = (...exchange) =>
      isDown ? void exchange[1].writeHead(503).end() : listener(...exchange);
    const setup = { chain, routes: meter("$0.50"), more, backend, storePath: path };
    await using shop = await startGateway(setup);
    const url = `${shop.url}/v1/chat/completions`;
    const init = asking({ tokens: 5 });
    const [quoted, owed, anew] = [
      await richBuyer(chain),
      await richBuyer(chain),
      await richBuyer(chain),
    ];
    const [one, other] = [
      await sign(quoted, url, { init, version }),
      await sign(owed, url, { init, version }),
    ];
    isDown = true;
    expect((await present(url, other, init, version)).status).toBe(503);
    isDown = false;
    expect(await shop.reroute(`\n  POST /v1/chat/completions: { ${now} }\n`)).toBe(true);
    expect((await present(url, one, init, version)).status).toBe(200);
    await rest(path, quoted, 490_000n);
    expect((await present(url, other, init, version)).status).toBe(200);
    await rest(path, owed, 490_000n);
    const answer = await present(url, await sign(anew, url, { init, version }), init, version);
    expect(answer.status).toBe(200);
    expect(await chain.balanceOf(anew.address)).toBe(PURSE - MAX);
    expect(balanceIn(path, anew.address)).toBe(0n);
    expect(await statusAt(shop.url, answer)).not.toHaveProperty("metered");
  });
});
