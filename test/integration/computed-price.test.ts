/** Prices by expressions, before a real chain: what the body decides is what is quoted, charged and forwarded. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { wrapFetchWithPayment } from "x402-fetch";
import { present, PURSE, quote, richBuyer, sign, VERSIONS } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import type { FreshAccount } from "../support/payer.ts";
import { challengeOf, showSignIn, signChallenge } from "../support/sign-in.ts";

const ROUTES = `
  POST /generate:
    price: { by: 'usd("0.001") + 100 * size(body.prompt)', from: $0.001, to: $0.05 }
    description: Generated
  POST /for-members:
    price: { by: '1000 * int(body.n)', from: $0.001, to: $0.05 }
    prices: { partners: $0.001 }
    description: Cheaper for members
  GET,POST /worked:
    price: { by: '"n" in query ? 1000 * int(query.n) : 1000 * int(query.m)', from: $0.001, to: $0.05 }
    settle: after
    description: Worked
  POST /worked-body: { price: { by: '1000 * int(body.n)', from: $0.001, to: $0.05 }, settle: after, description: Work }
  GET,POST /by-query: { price: { by: "1000 * int(query.n)", from: $0.001, to: $0.05 }, description: Some }
  GET /by-header:
    price: { by: 'has(headers.tier) && headers.tier == "fast" ? 0.02 : 0.01', from: $0.01, to: $0.02 }
    description: Fast
`;

let chain: Chain;
let gateway: RunningGateway;
let answerWith = 200;
let member: FreshAccount;

beforeAll(async () => {
  chain = await startChain();
  member = await richBuyer(chain);
  gateway = await startGateway({
    chain,
    routes: ROUTES,
    more: `members: { partners: "${member.address}" }`,
    backend: (request: IncomingMessage, response: ServerResponse) => {
      response.writeHead(answerWith).end(`goods of ${request.url ?? ""}`);
    },
  });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await chain.stop();
});

const generate = () => `${gateway.url}/generate`;
const post = (body: string, type = "application/json"): RequestInit => ({
  method: "POST",
  body,
  headers: { "Content-Type": type },
});
/** With what a program would not write that reads it: spaces, and a member's name as an escape. */
const ODD_BODY = '{ "\\u0070rompt":\t"h\\u00e9llo", "x": 1.50 }\n';

describe("a price by the body", () => {
  it("is what the official client pays, and the backend gets the body byte for byte", async () => {
    const buyer = await richBuyer(chain);
    const paid = await chain.balanceOf(gateway.payee);
    const pay = wrapFetchWithPayment(fetch, buyer.account);
    const response = await pay(generate(), post(ODD_BODY));
    expect([response.status, await response.text()]).toEqual([200, "goods of /generate"]);
    expect(await chain.balanceOf(gateway.payee)).toBe(paid + 1_500n);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 1_500n);
    expect(gateway.upstream.at(-1)?.body).toBe(ODD_BODY);
  });

  it.each(VERSIONS)("is paid in version %i", async (version) => {
    const buyer = await richBuyer(chain);
    const init = post('{"prompt":"hello you"}');
    const header = await sign(buyer, generate(), { init, version });
    const answer = await present(generate(), header, init, version);
    expect(answer).toMatchObject({ status: 200, receipt: { success: true } });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 1_900n);
  });

  it("is the most that is asked, and said to be that, where no body was sent", async () => {
    const response = await fetch(generate(), { method: "POST" });
    const { error, accepts } = Object(await response.json());
    expect([response.status, accepts[0].maxAmountRequired]).toEqual([402, "50000"]);
    expect(error).toBe(
      "X-PAYMENT header is required; this is the most that it may cost, not its price: " +
        "that depends on the body, which was not sent",
    );
    const told = JSON.parse(atob(response.headers.get("PAYMENT-REQUIRED") ?? ""));
    expect(told.accepts[0].amount).toBe("50000");
    expect(told.error).toContain("not its price");
  });

  it("is told with a payment that cannot be read, too", async () => {
    const spoilt = { headers: { "X-PAYMENT": "junk", "Content-Type": "application/json" } };
    const ask = async (body?: string) => {
      const response = await fetch(generate(), { method: "POST", ...spoilt, body: body ?? null });
      const { error, accepts } = Object(await response.json());
      return [response.status, accepts[0].maxAmountRequired, error.includes("not its price")];
    };
    expect(await ask('{"prompt":"hello"}')).toEqual([400, "1500", false]);
    expect(await ask()).toEqual([400, "50000", true]);
  });

  it("is not the most: whoever has signed that is told his price, and not charged", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, generate(), { init: { method: "POST" } });
    const before = gateway.upstream.length;
    const answer = await present(generate(), header, post('{"prompt":"hello"}'));
    expect(answer.status).toBe(402);
    expect(Object(JSON.parse(answer.text)).accepts[0].maxAmountRequired).toBe("1500");
    expect(gateway.upstream.length).toBe(before);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE);
  });

  it("is that of the body which comes with the payment", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, generate(), { init: post('{"prompt":"hi"}') });
    const before = gateway.upstream.length;
    const changed = await present(generate(), header, post(`{"prompt":"${"x".repeat(300)}"}`));
    expect(changed.status).toBe(402);
    expect(Object(JSON.parse(changed.text)).accepts[0].maxAmountRequired).toBe("31000");
    expect(gateway.upstream.length).toBe(before);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE);
  });

  it("is not outside of what is sold, and nothing is charged for what has none", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, generate(), { init: post('{"prompt":"hi"}') });
    const before = gateway.upstream.length;
    const large = JSON.stringify({ prompt: "x".repeat(70_000) });
    const cases: readonly (readonly [RequestInit, number, string])[] = [
      [post(`{"prompt":"${"x".repeat(500)}"}`), 400, "it comes to more than $0.05"],
      [post('{"other":1}'), 400, "No such key: prompt"],
      [post('{"prompt":"a","prompt":"b"}'), 400, "a member twice"],
      [post('{"prompt":'), 400, "the body is no JSON"],
      [{ method: "POST" }, 400, "its body decides what it costs, and is missing"],
      [post(large), 413, "larger than 65536 bytes"],
      [post('{"prompt":"a"}', "text/plain"), 415, "has to be application/json"],
    ];
    for (const [init, status, said] of cases) {
      const answer = await present(generate(), header, init);
      expect([answer.status, answer.error]).toEqual([status, expect.stringContaining(said)]);
      expect(answer.error).toContain("no payment was taken for this request");
    }
    const unpaid = await fetch(generate(), post(large));
    expect(unpaid.status).toBe(402);
    expect(Object(await unpaid.json()).error).toContain("is refused when it is paid for");
    expect(gateway.upstream.length).toBe(before);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE);
    // The payment is as good as before for what it was signed for.
    expect(await present(generate(), header, post('{"prompt":"hi"}'))).toMatchObject({
      status: 200,
    });
  });

  it("buys nothing dearer with what is owed for something cheap", async () => {
    const buyer = await richBuyer(chain);
    const cheap = post('{"prompt":"hi"}');
    const dear = post(`{"prompt":"${"x".repeat(300)}"}`);
    const header = await sign(buyer, generate(), { init: cheap });
    answerWith = 500;
    expect((await present(generate(), header, cheap)).status).toBe(500);
    answerWith = 200;
    const before = gateway.upstream.length;
    const repriced = await present(generate(), header, dear);
    expect([repriced.status, repriced.error]).toEqual([
      409,
      expect.stringContaining("used for a request of another price"),
    ]);
    expect(gateway.upstream.length).toBe(before);
    // A new payment for the dear one is charged, and does not collect the cheap one.
    const other = await sign(buyer, generate(), { init: dear });
    expect(await present(generate(), other, dear)).toMatchObject({ status: 200 });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 1_200n - 31_000n);
    expect(await present(generate(), header, cheap)).toMatchObject({ status: 200 });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 1_200n - 31_000n);
  });
});

describe("a price of members beside it", () => {
  const url = () => `${gateway.url}/for-members`;
  const [one, many] = [post('{"n":1}'), post('{"n":50}')];

  it("has nobody else who signs in collect something dear with what he is owed for something cheap", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, url(), { init: one });
    answerWith = 500;
    expect((await present(url(), header, one)).status).toBe(500);
    answerWith = 200;
    const before = gateway.upstream.length;
    const signIn = async () => signChallenge(await challengeOf(url(), one), buyer.account);
    expect((await showSignIn(url(), await signIn(), many)).status).toBe(402);
    expect(gateway.upstream.length).toBe(before);
    expect((await showSignIn(url(), await signIn(), one)).status).toBe(200);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 1_000n);
  });

  it("is what a member is charged, exactly, whatever the request", async () => {
    const known = await signChallenge(await challengeOf(url(), many), member.account);
    const asked = await showSignIn(url(), known, many);
    const told = JSON.parse(atob(asked.headers.get("PAYMENT-REQUIRED") ?? ""));
    expect([asked.status, told.accepts[0].amount]).toEqual([402, "1000"]);
    const cheap = await sign(member, url(), { init: one });
    expect(await present(url(), cheap, many)).toMatchObject({ status: 200 });
    expect(await chain.balanceOf(member.address)).toBe(PURSE - 1_000n);
    const stranger = await richBuyer(chain);
    const header = await sign(stranger, url(), { init: one });
    expect(await present(url(), header, many)).toMatchObject({ status: 402 });
    expect(await chain.balanceOf(stranger.address)).toBe(PURSE);
  });
});

describe("a price by the head", () => {
  it("is that of the query, which is there once", async () => {
    const buyer = await richBuyer(chain);
    const at = (query: string) => `${gateway.url}/by-query?${query}`;
    const header = await sign(buyer, at("n=3"));
    expect((await present(at("n=30"), header)).status).toBe(402);
    expect((await present(at("n=3&n=30"), header)).status).toBe(400);
    expect((await present(at("n=51"), header)).status).toBe(400);
    expect((await present(at("n=-3"), header)).status).toBe(400);
    expect((await fetch(at("n=many"))).status).toBe(400);
    expect(await present(at("n=3"), header)).toMatchObject({ status: 200 });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 3_000n);
  });

  it("is that of a header, of which a HEAD asks as its GET", async () => {
    const at = `${gateway.url}/by-header`;
    const fast = { headers: { tier: "fast" } };
    expect((await quote(at)).maxAmountRequired).toBe("10000");
    expect((await quote(at, fast)).maxAmountRequired).toBe("20000");
    // It does not reach the backend, and costs nothing.
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, at, { init: fast });
    expect((await present(at, header)).status).toBe(402);
    expect(await present(at, header, fast)).toMatchObject({ status: 200 });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 20_000n);
  });
});

describe("a price of work that comes first", () => {
  it("is that of the body, which is read before the work, and nothing is charged for what is no goods", async () => {
    const url = `${gateway.url}/worked-body`;
    const buyer = await richBuyer(chain);
    const [one, many] = [post('{ "n":1 }'), post('{"n":50}')];
    const header = await sign(buyer, url, { init: one });
    const before = gateway.upstream.length;
    expect((await present(url, header, many)).status).toBe(402);
    expect(gateway.upstream.length).toBe(before);
    answerWith = 500;
    expect((await present(url, header, one)).status).toBe(500);
    answerWith = 200;
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE);
    expect((await present(url, header, many)).status).toBe(402);
    expect(await present(url, header, one)).toMatchObject({ status: 200 });
    expect(gateway.upstream.at(-1)?.body).toBe('{ "n":1 }');
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 1_000n);
    const again = await present(url, header, many);
    expect(again.status).toBeGreaterThanOrEqual(400);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 1_000n);
  });

  it("is that of a GET for its HEAD", async () => {
    const at = (query: string) => `${gateway.url}/worked?${query}`;
    const head = { method: "HEAD" };
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, at("n=3"));
    expect((await present(at("n=4"), header, head)).status).toBe(402);
    expect((await fetch(at("n=3"), head)).status).toBe(402);
    expect(await present(at("n=3"), header)).toMatchObject({ status: 200 });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 3_000n);
  });
});

describe("a reload", () => {
  it("leaves what was quoted good, for the same request, also where the body is read no longer", async () => {
    const buyer = await richBuyer(chain);
    const init = post('{"prompt":"hello"}');
    const [first, second] = [
      await sign(buyer, generate(), { init }),
      await sign(buyer, generate(), { init }),
    ];
    const dearer = ROUTES.replace("100 * size", "200 * size");
    expect(await gateway.reroute(dearer)).toBe(true);
    expect((await quote(generate(), init)).maxAmountRequired).toBe("2000");
    expect((await present(generate(), first, post('{"prompt":"another"}'))).status).toBe(402);
    expect(await present(generate(), first, init)).toMatchObject({ status: 200 });
    const fixed = ROUTES.replace(/price: \{ by: 'usd.*\n/, "price: $0.04\n");
    expect(await gateway.reroute(fixed)).toBe(true);
    expect((await quote(generate(), init)).maxAmountRequired).toBe("40000");
    expect(await present(generate(), second, init)).toMatchObject({ status: 200 });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 3_000n);
    expect(await gateway.reroute(ROUTES)).toBe(true);
  });
});
