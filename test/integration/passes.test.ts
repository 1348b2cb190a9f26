/** Passes: one purchase of the gateway's own opens several routes, by both versions' official clients. */
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { headerJson, PURSE, richBuyer } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { evmClients } from "../support/evm-clients.ts";
import { PUBLIC_URL, startGateway, type RunningGateway } from "../support/gateway.ts";
import type { FreshAccount } from "../support/payer.ts";
import { openSessionAt, returningBuyer } from "../support/sign-in.ts";
import { Connection } from "./workers/stage.ts";

const closing = new AsyncDisposableStack();
let chain: Chain;
let gateway: RunningGateway;

const ROUTES = `
  GET /articles/*: { price: $0.01, description: An article }
  POST /archive: { price: $0.02, description: The archive }
  GET /puzzle: { price: $0.01, description: A puzzle, free: 1/d by payer }
`;
const PASSES = `
discovery: { llms: true, page: /catalogue }
passes:
  day: { price: $0.10, routes: [GET /articles/*, POST /archive], for: 24h, description: All for a day }
  five: { price: $0.03, routes: [GET /articles/*, GET /puzzle], for: 1h, times: 5 }
`;
const SIGN_IN = "/.well-known/x402/sign-in";

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  gateway = closing.use(await startGateway({ chain, routes: ROUTES, more: PASSES }));
});

afterAll(() => closing.disposeAsync());

const charged = async ({ address }: Pick<FreshAccount, "address">): Promise<bigint> =>
  PURSE - (await chain.balanceOf(address));

const sessionOf = (buyer: Pick<FreshAccount, "account">): Promise<string> =>
  openSessionAt(gateway.url, buyer);

const asks = (session: string, path: string, method = "GET"): Promise<Response> =>
  fetch(gateway.url + path, { method, headers: { [SESSION_HEADER]: session } });

describe("a pass", () => {
  it.each(Object.entries(evmClients))(
    "is bought by %s, and opens its routes, and no others",
    async (_, { buy }) => {
      const buyer = await richBuyer(chain);
      const bought = await buy(`${gateway.url}/.x402/passes/day`, buyer);
      expect(bought.status).toBe(200);
      expect(await charged(buyer)).toBe(100_000n);
      const session = await sessionOf(buyer);
      for (let times = 0; times < 3; times += 1) {
        expect((await asks(session, `/articles/${times}`)).status).toBe(200);
      }
      expect((await asks(session, "/archive", "POST")).status).toBe(200);
      expect(gateway.upstream.at(-1)?.headers["x-402-payer"]).toBe(buyer.address);
      await asks(session, "/puzzle");
      expect((await asks(session, "/puzzle")).status).toBe(402);
      expect(await charged(buyer)).toBe(100_000n);
    },
  );

  it("says what it opens, and for how long", async () => {
    const buyer = await richBuyer(chain);
    const bought = await returningBuyer(gateway.url, buyer)("/.x402/passes/five", {
      method: "POST",
    });
    expect(await bought.json()).toMatchObject({
      pass: "five",
      opens: ["GET /articles/*", "GET /puzzle"],
      seconds: 3_600,
      requests: 5,
      payer: buyer.address,
      session: PUBLIC_URL + SIGN_IN,
    });
  });

  it("is of so many requests of all its routes together, behind what is free", async () => {
    const buyer = await richBuyer(chain);
    await returningBuyer(gateway.url, buyer)("/.x402/passes/five");
    const session = await sessionOf(buyer);
    // One puzzle is free each day.
    const paths = ["/puzzle", "/puzzle", "/articles/1", "/puzzle", "/articles/2", "/articles/3"];
    for (const path of paths) expect((await asks(session, path)).status).toBe(200);
    expect((await asks(session, "/articles/4")).status).toBe(402);
    expect((await asks(session, "/puzzle")).status).toBe(402);
    expect(await charged(buyer)).toBe(30_000n);
  });

  it("says where its receipt has led what is left of it", async () => {
    const buyer = await richBuyer(chain);
    const bought = await returningBuyer(gateway.url, buyer)("/.x402/passes/five");
    const { extensions } = headerJson(bought.headers, "PAYMENT-RESPONSE");
    const { pathname } = new URL(String(extensions["payment-status"].info.url));
    const status = async () => Object(await (await fetch(gateway.url + pathname)).json());
    expect((await status()).uses).toBeUndefined();
    const session = await sessionOf(buyer);
    for (const path of ["/articles/1", "/articles/2"]) await asks(session, path);
    await expect.poll(async () => (await status()).uses?.left).toBe(3);
    expect(Date.parse((await status()).uses.until)).toBeGreaterThan(Date.now());
  });

  it("is nobody's who has bought nothing, nor for a payment of a single request", async () => {
    const buyer = await richBuyer(chain);
    expect((await returningBuyer(gateway.url, buyer)("/articles/1")).status).toBe(200);
    expect((await asks(await sessionOf(buyer), "/articles/2")).status).toBe(402);
    expect((await fetch(`${gateway.url}/articles/2`)).status).toBe(402);
  });
});

test("where a pass is bought is told beside the price of what it opens, and in the listing", async () => {
  const asked = await fetch(`${gateway.url}/articles/1`);
  const links = asked.headers.get("link") ?? "";
  expect(links).toContain(`<${PUBLIC_URL}/.x402/passes/day>; rel="payment"; title="day"`);
  expect(links).toContain(`<${PUBLIC_URL}/.x402/passes/five>; rel="payment"; title="five"`);
  const { extensions } = headerJson(asked.headers, "PAYMENT-REQUIRED");
  expect(extensions.passes.info.passes).toEqual([
    { name: "day", url: `${PUBLIC_URL}/.x402/passes/day`, price: "$0.10", seconds: 86_400 },
    {
      name: "five",
      url: `${PUBLIC_URL}/.x402/passes/five`,
      price: "$0.03",
      seconds: 3_600,
      requests: 5,
    },
  ]);
  const puzzle = await fetch(`${gateway.url}/puzzle`);
  expect(puzzle.headers.get("link")).not.toContain("passes/day");
  const listing = JSON.stringify(await (await fetch(`${gateway.url}/discovery/resources`)).json());
  expect(listing).toContain("/.x402/passes/day");
  expect(listing).toContain('"free":{"requests":1,"seconds":86400,"by":"payer"}');
  using browser = new Connection(gateway.url);
  const page = await browser.get("/articles/1", { accept: "text/html" });
  const link = `<a href="${PUBLIC_URL}/.x402/passes/day">Or a pass: day, $0.10`;
  expect(page.text).toContain(link);
});

test("the text for language models and the catalogue page say so in the same words", async () => {
  const five = "the pass five opens it: $0.03 for 1h, 5 requests at /.x402/passes/five";
  const free = "1 requests of an account that signs in are free each day (UTC)";
  const text = await (await fetch(`${gateway.url}/llms.txt`)).text();
  expect(text.split(`  - Or: ${five}\n`)).toHaveLength(3);
  expect(text.split(`  - Or: ${free}\n`)).toHaveLength(2);
  const page = await (await fetch(`${gateway.url}/catalogue`)).text();
  expect(page.split(`<p>Or: ${five}.</p>`)).toHaveLength(3);
  expect(page.split(`<p>Or: ${free}.</p>`)).toHaveLength(2);
});
