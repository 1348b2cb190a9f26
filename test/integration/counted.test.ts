/** What is had for nothing and counted: uses of a purchase, and requests that are free before a price begins. */
import {
  request as httpRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type RequestListener,
} from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { headerJson, richBuyer } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";
import {
  challengeOf,
  openSessionAt,
  returningBuyer,
  showSignIn,
  signChallenge,
} from "../support/sign-in.ts";

const closing = new AsyncDisposableStack();
let chain: Chain;
let gateway: RunningGateway;

const ROUTES = `
  GET /papers/*: { price: $0.01, description: A paper, grants: { for: 24h, times: 3 } }
  GET /tried/*: { price: $0.01, description: Tried, free: 2/d by address }
  GET /known/*: { price: $0.01, description: Known, free: 2/d by payer }
  GET /mixed/*: { price: $0.01, description: Mixed, free: 1/d by address, grants: { for: 24h, times: 1 } }
  GET /both/*: { price: $0.01, description: Both, free: 1/d by payer, grants: { for: 24h, times: 1 } }
`;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  gateway = closing.use(await startGateway({ chain, routes: ROUTES, backend: respond }));
});

afterAll(() => closing.disposeAsync());

const respond: RequestListener = (request, response) => {
  const status = Number(/[?&]status=(\d+)/.exec(request.url ?? "")?.[1] ?? 200);
  response.writeHead(status, { "content-type": "text/plain" }).end("an answer");
};

/** Lines that `fetch` does not let anybody write. */
function ask(url: string, headers: OutgoingHttpHeaders): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const asked = httpRequest(url, { headers }, (answer) => resolve(answer.resume()));
    asked.on("error", reject).end();
  });
}

const sessionOf = (buyer: Pick<FreshAccount, "account">): Promise<string> =>
  openSessionAt(gateway.url, buyer);

const leftOf = ({ headers }: Response): unknown => headers.get("ratelimit");

describe("uses of a purchase", () => {
  it("are had so often as it says, by its payer, and what fails is none", async () => {
    const buyer = await richBuyer(chain);
    expect((await returningBuyer(gateway.url, buyer)("/papers/one")).status).toBe(200);
    const session = await sessionOf(buyer);
    const asks = (path: string) =>
      fetch(gateway.url + path, { headers: { [SESSION_HEADER]: session } });
    const first = await asks("/papers/two");
    expect([first.status, first.headers.get("ratelimit-policy")]).toEqual([200, '"purchase";q=3']);
    expect(leftOf(first)).toMatch(/^"purchase";r=2;t=86\d{3}$/);
    expect((await asks("/papers/failing?status=500")).status).toBe(500);
    expect((await asks("/papers/missing?status=404")).status).toBe(404);
    const others = await Promise.all(["/papers/3", "/papers/4", "/papers/5"].map(asks));
    expect(others.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([
      200, 200, 402,
    ]);
    expect((await asks("/papers/six")).status).toBe(402);
  });

  it("are used up by a cookie only where its own site, or its own buyer, asks", async () => {
    const buyer = await richBuyer(chain);
    const buy = returningBuyer(gateway.url, buyer);
    expect((await buy("/papers/one")).status).toBe(200);
    // The first is free.
    expect([(await buy("/mixed/x")).status, (await buy("/mixed/x")).status]).toEqual([200, 200]);
    const cookie = `x402-session=${await sessionOf(buyer)}`;
    const own = { Cookie: cookie, "Sec-Fetch-Site": "same-origin" };
    const others = [
      { Cookie: cookie },
      { Cookie: cookie, "Sec-Fetch-Site": "cross-site" },
      { Cookie: cookie, "Sec-Fetch-Site": "same-site" },
      { ...own, "Sec-Purpose": "prefetch" },
    ];
    for (const path of ["/papers/two", "/known/two", "/mixed/two"]) {
      for (const headers of others) {
        const answer = await ask(gateway.url + path, headers);
        expect([path, answer.statusCode]).toEqual([path, 402]);
      }
    }
    for (const left of [2, 1, 0]) {
      const answer = await ask(`${gateway.url}/papers/two`, own);
      expect([answer.statusCode, answer.headers.ratelimit]).toEqual([
        200,
        expect.stringContaining(`"purchase";r=${left};`),
      ]);
    }
    expect((await ask(`${gateway.url}/known/two`, own)).statusCode).toBe(200);
    expect((await ask(`${gateway.url}/mixed/two`, own)).statusCode).toBe(200);
  });

  it("of several purchases are had one after the other", async () => {
    const buyer = await richBuyer(chain);
    const buy = returningBuyer(gateway.url, buyer);
    await buy("/papers/one");
    const session = await sessionOf(buyer);
    const asks = () => fetch(`${gateway.url}/papers/x`, { headers: { [SESSION_HEADER]: session } });
    for (let times = 0; times < 3; times += 1) expect((await asks()).status).toBe(200);
    expect((await asks()).status).toBe(402);
    expect((await buy("/papers/another")).status).toBe(200);
    for (let times = 0; times < 3; times += 1) expect((await asks()).status).toBe(200);
    expect((await asks()).status).toBe(402);
  });
});

describe("what is free before the price begins", () => {
  it("is had by an address, and what fails costs nothing of it", async () => {
    const asks = (path: string) => fetch(gateway.url + path);
    expect((await asks("/tried/a?status=500")).status).toBe(500);
    const first = await asks("/tried/a");
    expect([first.status, first.headers.get("ratelimit-policy")]).toEqual([
      200,
      '"free";q=2;w=86400',
    ]);
    expect(leftOf(first)).toMatch(/^"free";r=1;t=\d+$/);
    expect(first.headers.get("cache-control")).toContain("private");
    expect((await asks("/tried/b")).status).toBe(200);
    const over = await asks("/tried/c");
    expect(over.status).toBe(402);
    expect(leftOf(over)).toMatch(/^"free";r=0;t=\d+$/);
    const { error } = headerJson(over.headers, "PAYMENT-REQUIRED");
    expect(error).toMatch(/2 requests\) is used up, and begins anew at 20\d\d-\d\d-\d\dT00:00:00/);
    const buyer = await richBuyer(chain);
    expect((await returningBuyer(gateway.url, buyer)("/tried/d")).status).toBe(200);
  });

  it("is had by each account that signs in, and by nobody who does not", async () => {
    const url = `${gateway.url}/known/a`;
    expect((await fetch(url)).status).toBe(402);
    const [one, other] = [freshAccount(), freshAccount()];
    const shows = async ({ account }: FreshAccount) =>
      (await showSignIn(url, await signChallenge(await challengeOf(url), account))).status;
    expect([await shows(one), await shows(one), await shows(one)]).toEqual([200, 200, 402]);
    expect(gateway.upstream.at(-1)?.headers["x-402-payer"]).toBe(one.address);
    expect(await shows(other)).toBe(200);
    const header = await signChallenge(await challengeOf(url), other.account);
    const stolen = await signChallenge(await challengeOf(url), one.account, (told) => ({
      ...told,
      address: other.address,
    }));
    expect((await showSignIn(url, stolen)).status).toBe(402);
    expect((await showSignIn(url, header)).status).toBe(200);
    expect((await showSignIn(url, header)).status).toBe(402);
  });

  it("is used before what was bought", async () => {
    const buyer = await richBuyer(chain);
    const buy = returningBuyer(gateway.url, buyer);
    const statuses: number[] = [];
    for (let times = 0; times < 4; times += 1) statuses.push((await buy("/both/x")).status);
    expect(statuses).toEqual([200, 200, 200, 200]);
    // Free, bought, by that purchase, bought again.
    const told = gateway.upstream.slice(-4).map(({ headers }) => "x-402-transaction" in headers);
    expect(told).toEqual([false, true, false, true]);
  });
});
