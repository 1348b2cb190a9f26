/** Requests that are paid from what their buyer has prepaid: by a session, with no payment, and debited by what they got. */
import { randomUUID } from "node:crypto";
import { request as httpRequest, type RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";
import { balanceIn, prepay } from "../support/prepaid.ts";
import { openSessionAt } from "../support/sign-in.ts";

const ROUTES = `
  GET /weather: { price: $0.001, description: Weather, credits: true }
  GET /papers/:id: { price: $0.001, description: A paper, credits: true, redirects: follow }
  POST /jobs: { price: $0.002, description: A job, credits: true, goods: [404] }
  GET /partners: { price: $0.004, description: For partners, credits: true, prices: { partners: $0.001 } }
  GET /declared: { price: $0.001, description: Declared, credits: true, input: { queryParams: { city: { type: string, required: true } } } }
  POST /computed: { price: { by: 'usd("0.001") * int(body.n)', from: $0.001, to: $0.01 }, description: Computed, credits: true, input: { bodyType: json } }
  GET /owned: { price: $0.001, description: Granted, credits: true, grants: 24h }
  GET /marker: { price: $0.0001, description: Asked last, credits: true }
  GET /plain: { price: $0.001, description: By payments alone }
`;

const closing = new AsyncDisposableStack();
const storePath = join(tmpdir(), `coinslot-spending-${randomUUID()}`, "ledger.db");
let chain: Chain;
let gateway: RunningGateway;
const buyer = freshAccount();
const poor = freshAccount();
const partner = freshAccount();
/** Who has paid for a route that grants more. */
const reader = freshAccount();
/** Answers of the backend that are held back, and what lets them go. */
const held = new Map<string, () => void>();
/** Answers that are over, for the backend too. */
const over = new Set<string>();

const backend: RequestListener = (asked, response) => {
  const url = new URL(asked.url ?? "", "http://backend");
  const status = Number(url.searchParams.get("status") ?? 200);
  const to = url.searchParams.get("to");
  const how = url.searchParams.get("how");
  asked.resume();
  if (to !== null) return response.writeHead(302, { Location: to }).end();
  if (how === "hold")
    return void held.set(url.search, () => response.writeHead(status).end("held"));
  if (how === "break") {
    response.once("close", () => over.add(url.search));
    response.writeHead(status).write("x".repeat(100_000));
    return void held.set(url.search, () => response.destroy());
  }
  return response.writeHead(status).end("goods");
};

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  const amounts = {
    [buyer.address]: 1_000_000n,
    [poor.address]: 1_500n,
    [partner.address]: 10_000n,
    [reader.address]: 10_000n,
  };
  await prepay(storePath, amounts, { [reader.address]: "GET /owned" });
  gateway = closing.use(
    await startGateway({
      chain,
      routes: ROUTES,
      more: more(),
      files: { "denied.txt": buyer.address },
      storePath,
      backend,
    }),
  );
});

afterAll(() => closing.disposeAsync());

const more = (atRisk = "$1"): string =>
  `credits: { packs: [$1], atRisk: ${atRisk} }\nmembers: { partners: "${partner.address}" }`;

const sessionOf = (account: FreshAccount): Promise<string> => openSessionAt(gateway.url, account);

type Init = Omit<RequestInit, "headers"> & { readonly headers?: Readonly<Record<string, string>> };

const by = (token: string, path: string, init: Init = {}): Promise<Response> =>
  fetch(gateway.url + path, {
    redirect: "manual",
    ...init,
    headers: { ...Object(init.headers), [SESSION_HEADER]: token },
  });

/** What a request has cost, once that is written, by what the request after it finds. */
async function costOf(account: FreshAccount, ask: () => Promise<unknown>): Promise<bigint> {
  const before = balanceIn(storePath, account.address);
  await ask();
  // What comes later is written later: nothing else costs a part of a tenth of a cent.
  const token = await sessionOf(account);
  expect((await by(token, "/marker")).status).toBe(200);
  let spent = 0n;
  await vi.waitFor(() => {
    spent = before - balanceIn(storePath, account.address);
    expect(spent % 1_000n).toBe(100n);
  });
  return spent - 100n;
}

it("is served for its price, told, and asked for nothing else", async () => {
  const token = await sessionOf(buyer);
  const cost = await costOf(buyer, async () => {
    const answer = await by(token, "/weather");
    expect([answer.status, await answer.text()]).toEqual([200, "goods"]);
    expect(answer.headers.get("X-402-Charged")).toBe("0.001 USDC");
    expect(answer.headers.get("Cache-Control")).toContain("private");
    expect(answer.headers.get("Vary")).toContain(SESSION_HEADER);
    expect(answer.headers.get("Payment-Response")).toBeNull();
  });
  expect(cost).toBe(1_000n);
  const seen = gateway.upstream.at(-1)?.headers;
  expect(seen).toMatchObject({ "x-402-payer": buyer.address, "x-402-network": "base-sepolia" });
  expect(seen?.["x-402-session"]).toBeUndefined();
});

it("costs nothing where nothing is sold, and is not said to", async () => {
  const token = await sessionOf(buyer);
  const cost = await costOf(buyer, async () => {
    for (const status of [400, 404, 500, 503]) {
      const answer = await by(token, `/weather?status=${status}`);
      expect([answer.status, answer.headers.get("X-402-Charged")]).toEqual([status, null]);
      await answer.text();
    }
    // Within our own host, where the target is sold for as much: it is not goods yet.
    const led = await by(token, "/weather?to=/papers/1");
    expect([led.status, led.headers.get("X-402-Charged")]).toEqual([302, null]);
    const head = await by(token, "/weather", { method: "HEAD" });
    expect(head.status).toBe(402);
  });
  expect(cost).toBe(0n);
});

it("costs what other answers that are goods cost: elsewhere, followed, and as its route has it", async () => {
  const token = await sessionOf(buyer);
  const cost = await costOf(buyer, async () => {
    const away = await by(token, "/weather?to=https://elsewhere.example/file");
    expect([away.status, away.headers.get("X-402-Charged")]).toEqual([302, "0.001 USDC"]);
    const followed = await by(token, "/papers/1?to=/papers/2");
    expect([followed.status, followed.headers.get("X-402-Charged")]).toEqual([200, "0.001 USDC"]);
    expect(followed.headers.get("Content-Location")).toBe("/papers/2");
    const none = await by(token, "/jobs?status=404", { method: "POST", body: "x" });
    expect([none.status, none.headers.get("X-402-Charged")]).toEqual([404, "0.002 USDC"]);
  });
  expect(cost).toBe(4_000n);
});

it("costs nothing where the backend breaks off, and its price where the buyer does", async () => {
  const token = await sessionOf(buyer);
  const cost = await costOf(buyer, async () => {
    const broken = await by(token, "/weather?how=break&n=1");
    expect(broken.status).toBe(200);
    held.get("?how=break&n=1")?.();
    await expect(broken.text()).rejects.toThrow("terminated");
  });
  expect(cost).toBe(0n);
  const left = await costOf(buyer, async () => {
    const leaving = new AbortController();
    const begun = await by(token, "/weather?how=break&n=2", { signal: leaving.signal });
    expect(begun.status).toBe(200);
    leaving.abort();
    await vi.waitFor(() => expect(over.has("?how=break&n=2")).toBe(true));
  });
  expect(left).toBe(1_000n);
});

it("costs who leaves before an answer what he may have had done, and nothing where he only asked", async () => {
  const token = await sessionOf(buyer);
  const leave = async (method: string, path: string): Promise<void> => {
    const asked = httpRequest(gateway.url + path, { method, headers: { [SESSION_HEADER]: token } });
    asked.on("error", () => undefined);
    asked.end();
    const { search } = new URL(path, gateway.url);
    await vi.waitFor(() => expect(held.has(search)).toBe(true));
    const closed = new Promise((resolve) => asked.once("close", resolve));
    asked.destroy();
    await closed;
  };
  expect(await costOf(buyer, () => leave("GET", "/weather?how=hold&n=3"))).toBe(0n);
  expect(await costOf(buyer, () => leave("POST", "/jobs?how=hold&n=4"))).toBe(2_000n);
});

it("is asked to pay where too little is left, and where the route takes no balance", async () => {
  const token = await sessionOf(poor);
  expect((await by(token, "/jobs", { method: "POST", body: "x" })).status).toBe(402);
  expect((await by(token, "/weather")).status).toBe(200);
  expect((await by(token, "/weather")).status).toBe(402);
  expect((await by(await sessionOf(buyer), "/plain")).status).toBe(402);
  await vi.waitFor(() => expect(balanceIn(storePath, poor.address) === 500n).toBe(true));
});

it("costs members what their group pays, and a computed price by the body", async () => {
  const cost = await costOf(partner, async () => {
    const answer = await by(await sessionOf(partner), "/partners");
    expect(answer.headers.get("X-402-Charged")).toBe("0.001 USDC");
  });
  expect(cost).toBe(1_000n);
  const headers = { "Content-Type": "application/json" };
  const token = await sessionOf(buyer);
  const computed = await costOf(buyer, async () => {
    const asked = { method: "POST", headers, body: JSON.stringify({ n: 7 }) };
    const answer = await by(token, "/computed", asked);
    expect([answer.status, answer.headers.get("X-402-Charged")]).toEqual([200, "0.007 USDC"]);
    expect(gateway.upstream.at(-1)?.body).toBe('{"n":7}');
  });
  expect(computed).toBe(7_000n);
});

it("costs nothing where the route's declared input is missing, or a purchase grants it", async () => {
  const token = await sessionOf(buyer);
  const cost = await costOf(buyer, async () => {
    const unfit = await by(token, "/declared");
    expect([unfit.status, Object(await unfit.json()).faults]).toEqual([400, [expect.any(String)]]);
  });
  expect(cost).toBe(0n);
  expect(await costOf(buyer, () => by(token, "/declared?city=Rome"))).toBe(1_000n);
  // Who has not bought that route pays it from his balance.
  expect(await costOf(buyer, () => by(token, "/owned"))).toBe(1_000n);
  const granted = await sessionOf(reader);
  expect(await costOf(reader, () => by(granted, "/owned"))).toBe(0n);
});

it("spends by a cookie only where its own site, or its own buyer, asks", async () => {
  const token = await sessionOf(buyer);
  const ask = (lines: Readonly<Record<string, string>>): Promise<number> => {
    const headers = { Cookie: `x402-session=${token}`, ...lines };
    return new Promise((resolve, reject) => {
      const asked = httpRequest(`${gateway.url}/weather`, { headers }, (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? 0);
      });
      asked.on("error", reject).end();
    });
  };
  expect(await ask({ "Sec-Fetch-Site": "same-origin" })).toBe(200);
  expect(await ask({ "Sec-Fetch-Site": "none" })).toBe(200);
  expect(await ask({})).toBe(402);
  expect(await ask({ "Sec-Fetch-Site": "cross-site" })).toBe(402);
  expect(await ask({ "Sec-Fetch-Site": "same-site" })).toBe(402);
  expect(await ask({ "Sec-Fetch-Site": "none", "Sec-Purpose": "prefetch" })).toBe(402);
  expect(await ask({ "Sec-Fetch-Site": "same-origin", Purpose: "prefetch" })).toBe(402);
  // Who opens it sees the page, which says the price first; what is not for looking at is asked for by somebody.
  const opened = { "Sec-Fetch-Mode": "navigate", Accept: "text/html,*/*;q=0.8" };
  expect(await ask({ "Sec-Fetch-Site": "none", ...opened })).toBe(402);
  expect(await ask({ "Sec-Fetch-Site": "same-origin", ...opened })).toBe(402);
  const asked = { "Sec-Fetch-Mode": "cors", Accept: "text/html,*/*;q=0.8" };
  expect(await ask({ "Sec-Fetch-Site": "same-origin", ...asked })).toBe(200);
});

it("spends one balance once, however many ask at once", async () => {
  const rich = freshAccount();
  const path = join(tmpdir(), `coinslot-spending-${randomUUID()}`, "ledger.db");
  await prepay(path, { [rich.address]: 20_000n });
  await using shop = await startGateway({
    chain,
    routes: ROUTES,
    more: more("$0.005"),
    storePath: path,
    backend,
  });
  const token = await openSessionAt(shop.url, rich);
  const all = await Promise.all(
    Array.from({ length: 50 }, async () => {
      const answer = await fetch(`${shop.url}/weather`, { headers: { [SESSION_HEADER]: token } });
      await answer.text();
      return answer.status;
    }),
  );
  expect(all.filter((status) => status === 200).length).toBe(20);
  expect(all.filter((status) => status === 402).length).toBe(30);
  await vi.waitFor(() => expect(balanceIn(path, rich.address) === 0n).toBe(true));
});

it("is told to come again, and not to pay, where it is not known what there is", async () => {
  const stranger = freshAccount();
  // Everything that may be at risk is under way.
  const path = join(tmpdir(), `coinslot-spending-${randomUUID()}`, "ledger.db");
  await prepay(path, { [stranger.address]: 20_000n });
  await using other = await startGateway({
    chain,
    routes: ROUTES,
    more: more("$0.001"),
    backend,
    storePath: path,
  });
  const headers = { [SESSION_HEADER]: await openSessionAt(other.url, stranger) };
  const first = fetch(`${other.url}/weather?how=hold&n=5`, { headers });
  await vi.waitFor(() => expect(held.has("?how=hold&n=5")).toBe(true));
  const second = await fetch(`${other.url}/weather`, { headers });
  expect([second.status, second.headers.get("Retry-After")]).toEqual([503, "1"]);
  held.get("?how=hold&n=5")?.();
  expect((await first).status).toBe(200);
});

it("serves nobody from a balance whom the file denies, whatever session he has", async () => {
  const token = await sessionOf(buyer);
  const denied = `${more()}\npayers: { deny: denied.txt }`;
  expect(await gateway.reroute(ROUTES, denied)).toBe(true);
  const before = gateway.upstream.length;
  expect((await by(token, "/weather")).status).toBe(403);
  expect(gateway.upstream.length).toBe(before);
  // Others pay as before, after one look more.
  expect((await by(await sessionOf(reader), "/weather")).status).toBe(200);
});
