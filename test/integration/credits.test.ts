/** Balances that are bought: a pack is a route of the gateway's own, sold as any other. */
import { DatabaseSync } from "node:sqlite";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { SIGN_IN_HEADER } from "../../src/x402/sign-in.ts";
import { headerJson, inHeader, present, PURSE, quote, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { evmClients } from "../support/evm-clients.ts";
import { PUBLIC_URL, startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, signPayment, type FreshAccount } from "../support/payer.ts";
import { prepay } from "../support/prepaid.ts";
import { signChallenge } from "../support/sign-in.ts";

const closing = new AsyncDisposableStack();
const CREDITS = "credits: { packs: [$0.05, $1] }";
/** What the first pack costs, atomic units. */
const FIRST = 50_000n;
const PLACE = "/.x402/credits/0.05";

let chain: Chain;
let gateway: RunningGateway;
let storePath: string;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  const folder = mkdtempSync(join(tmpdir(), "coinslot-credits-"));
  closing.defer(() => rmSync(folder, { recursive: true }));
  storePath = join(folder, "ledger.db");
  gateway = closing.use(await startGateway({ chain, storePath, more: CREDITS }));
});

afterAll(() => closing.disposeAsync());

/** All that is in pots, by their names. */
function pots(path = storePath): Readonly<Record<string, unknown>> {
  using database = new DatabaseSync(path, { readOnly: true });
  const rows = database.prepare("SELECT name AS pot, free FROM pots").all();
  return Object.fromEntries(rows.map(({ pot, free }) => [String(pot), free]));
}

const potOf = ({ address }: Pick<FreshAccount, "address">): string =>
  `credits/evm-testnet/USDC/${address.toLowerCase()}`;

describe("a pack", () => {
  it.each(Object.entries(evmClients))(
    "is bought by %s, and is in the balance",
    async (_, client) => {
      const buyer = await richBuyer(chain);
      const served = gateway.upstream.length;
      for (const body of [undefined, {}]) {
        const { status, body: told, receipt } = await client.buy(gateway.url + PLACE, buyer, body);
        expect(status).toBe(200);
        expect(told).toMatchObject({
          bought: { token: "USDC", amount: "50000", decimals: 6, dollars: "0.05" },
          payer: buyer.address,
          network: "base-sepolia",
          transaction: receipt["transaction"],
          balance: `${PUBLIC_URL}/.x402/balance`,
          session: `${PUBLIC_URL}/.well-known/x402/sign-in`,
        });
      }
      expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 2n * FIRST);
      expect(pots()[potOf(buyer)]).toBe(String(2n * FIRST));
      expect(gateway.upstream.length).toBe(served);
    },
  );

  it("costs what its address says, the first one at the address above, too", async () => {
    const amounts = await Promise.all(
      ["", "/0.05", "/1"].map(async (path) => {
        const { maxAmountRequired } = await quote(`${gateway.url}/.x402/credits${path}`);
        return maxAmountRequired;
      }),
    );
    expect(amounts).toEqual(["50000", "50000", "1000000"]);
    expect((await fetch(`${gateway.url}/.x402/credits/2`)).status).toBe(404);
  });

  it("is told again to whoever sends its payment again, and is in the balance once", async () => {
    const buyer = await richBuyer(chain);
    const url = gateway.url + PLACE;
    const header = await sign(buyer, url);
    const first = await present(url, header);
    const second = await present(url, header);
    expect([first.status, second.status]).toEqual([200, 200]);
    expect(second.text).toBe(first.text);
    expect(pots()[potOf(buyer)]).toBe(String(FIRST));
  });
});

describe("what was paid for something else", () => {
  it("buys no pack, whatever a backend's redirect says", async () => {
    await using shop = await startGateway({
      chain,
      more: CREDITS,
      routes: `
  GET /led: { price: $0.05, description: Leads to a pack }
`,
      backend: (_, response) => void response.writeHead(302, { Location: PLACE }).end(),
    });
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${shop.url}/led`);
    const first = await fetch(`${shop.url}/led`, {
      headers: { "X-PAYMENT": header },
      redirect: "manual",
    });
    expect(first.status).toBe(302);
    const pack = await present(shop.url + PLACE, header);
    expect(pack.status).toBe(402);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - FIRST);
  });
});

const BALANCE = "/.x402/balance";
const SIGN_IN = "/.well-known/x402/sign-in";

/** A sign-in of an account, by the challenge that is for whatever it asks. */
async function signIn({ account }: Pick<FreshAccount, "account">, at = gateway): Promise<string> {
  return signChallenge(Object(await (await fetch(at.url + SIGN_IN)).json()), account);
}

async function sessionOf(buyer: Pick<FreshAccount, "account">, at = gateway): Promise<string> {
  const headers = { [SIGN_IN_HEADER]: await signIn(buyer, at) };
  const answer = await fetch(at.url + SIGN_IN, { method: "POST", headers });
  return Object(await answer.json()).session;
}

async function buy(buyer: FreshAccount, path = PLACE, at = gateway): Promise<void> {
  const url = at.url + path;
  const { status } = await present(url, await sign(buyer, url));
  expect(status).toBe(200);
}

describe("a balance", () => {
  it("is told to whoever has signed in, once for each, and to whoever shows a session", async () => {
    const buyer = await richBuyer(chain);
    await buy(buyer);
    const header = await signIn(buyer);
    const url = gateway.url + BALANCE;
    const first = await fetch(url, { headers: { [SIGN_IN_HEADER]: header } });
    expect(first.status).toBe(200);
    expect(first.headers.get("cache-control")).toBe("no-store");
    expect(await first.json()).toEqual({
      payer: buyer.address,
      credits: [
        { family: "evm-testnet", token: "USDC", amount: "50000", decimals: 6, dollars: "0.05" },
      ],
      buy: `${PUBLIC_URL}/.x402/credits`,
    });
    expect((await fetch(url, { headers: { [SIGN_IN_HEADER]: header } })).status).toBe(403);
    await buy(buyer, "/.x402/credits");
    const session = await sessionOf(buyer);
    for (const headers of [{ [SESSION_HEADER]: session }, { Cookie: `x402-session=${session}` }]) {
      const answer = await fetch(url, { headers });
      expect(Object(await answer.json()).credits).toMatchObject([{ dollars: "0.1" }]);
    }
  });

  it("is nobody else's, and told to nobody who is not known", async () => {
    const [buyer, other] = [await richBuyer(chain), await richBuyer(chain)];
    await buy(buyer);
    await buy(other, "/.x402/credits/1");
    const url = gateway.url + BALANCE;
    const answer = await fetch(url, { headers: { [SESSION_HEADER]: await sessionOf(other) } });
    expect(await answer.json()).toMatchObject({
      payer: other.address,
      credits: [{ dollars: "1" }],
    });
    const unknown = await fetch(url);
    expect([unknown.status, unknown.headers.get("www-authenticate")]).toEqual([
      401,
      "X-402-Session",
    ]);
    const forged = await fetch(url, { headers: { [SESSION_HEADER]: "e30.AAAA" } });
    expect(forged.status).toBe(403);
    const claimed = await signIn({ account: { ...other.account, address: buyer.address } });
    expect((await fetch(url, { headers: { [SIGN_IN_HEADER]: claimed } })).status).toBe(403);
    const post = await fetch(url, { method: "POST" });
    expect([post.status, post.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });

  it("of a smart wallet is its own on its chain alone", async () => {
    const owner = freshAccount();
    const wallet = await chain.deployWallet(owner.address);
    await chain.fund(wallet, PURSE);
    const url = gateway.url + PLACE;
    const requirements = await quote(url);
    const payment = await signPayment({
      account: owner.account,
      requirements,
      overrides: { from: wallet },
    });
    const header = inHeader({ paymentPayload: payment, paymentRequirements: requirements }, 1);
    expect((await present(url, header)).status).toBe(200);
    const pot = `credits/evm-testnet/USDC/${wallet.toLowerCase()}@base-sepolia`;
    expect(pots()[pot]).toBe("50000");
    const account = { ...owner.account, address: wallet };
    const session = await sessionOf({ account });
    const told = await fetch(gateway.url + BALANCE, { headers: { [SESSION_HEADER]: session } });
    expect(await told.json()).toMatchObject({
      payer: wallet,
      network: "base-sepolia",
      credits: [{ family: "evm-testnet", dollars: "0.05" }],
    });
    const ofOwner = await sessionOf(owner);
    expect(ofOwner).toBeUndefined();
  });

  it("may be read by a page of another origin where that may read anything", async () => {
    await using open = await startGateway({ chain, more: `${CREDITS}\ncors: true` });
    const asked = await fetch(open.url + BALANCE, {
      method: "OPTIONS",
      headers: {
        Origin: "https://app.example.com",
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "x-402-session",
      },
    });
    expect([asked.status, asked.headers.get("access-control-allow-origin")]).toEqual([204, "*"]);
    const answer = await fetch(open.url + BALANCE, {
      headers: { Origin: "https://x.example.com" },
    });
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
  });

  it("is told where nothing is sold for it any more", async () => {
    const path = join(storePath, "..", "ended.db");
    const buyer = freshAccount();
    await prepay(path, { [buyer.address]: 70_000n });
    await using ended = await startGateway({ chain, storePath: path });
    const headers = { [SESSION_HEADER]: await sessionOf(buyer, ended) };
    const answer = await fetch(ended.url + BALANCE, { headers });
    expect(await answer.json()).toMatchObject({ credits: [{ dollars: "0.07" }], buy: null });
  });
});

describe("that credits may be spent", () => {
  const PUBLISHED = "discovery: { openapi: true, llms: true, page: /catalogue }";
  const ROUTES = `
  GET /weather: { price: $0.01, description: Weather, credits: true }
  GET /plain: { price: $0.01, description: Paid on chain alone }
`;
  const BUY = `${PUBLIC_URL}/.x402/credits`;

  it("is told with the price of a route that takes them, and stock clients of both versions pay it all the same", async () => {
    await using shop = await startGateway({ chain, routes: ROUTES, more: CREDITS });
    const asked = await fetch(`${shop.url}/weather`);
    expect(asked.headers.get("x-402-credits")).toBe(BUY);
    const { extensions } = headerJson(asked.headers, "PAYMENT-REQUIRED");
    expect(extensions["prepaid-credits"].info).toEqual({
      buy: BUY,
      balance: `${PUBLIC_URL}/.x402/balance`,
      session: `${PUBLIC_URL}/.well-known/x402/sign-in`,
    });
    const page = await fetch(`${shop.url}/weather`, { headers: { Accept: "text/html" } });
    expect([page.status, page.headers.get("x-402-credits")]).toEqual([402, BUY]);
    const plain = await fetch(`${shop.url}/plain`);
    expect(plain.headers.get("x-402-credits")).toBeNull();
    expect(
      headerJson(plain.headers, "PAYMENT-REQUIRED").extensions["prepaid-credits"],
    ).toBeUndefined();
    for (const client of Object.values(evmClients)) {
      const { status } = await client.buy(`${shop.url}/weather`, await richBuyer(chain));
      expect(status).toBe(200);
    }
  });

  it("is told by listing, description, text and page, where packs are listed, too", async () => {
    const more = `${CREDITS}\n${PUBLISHED}`;
    await using shop = await startGateway({ chain, routes: ROUTES, more });
    const json = async (path: string) => Object(await (await fetch(shop.url + path)).json());
    const { items } = await json("/discovery/resources");
    const byUrl = new Map<string, { metadata: object }>(
      items.map((item: { resource: string }) => [item.resource.slice(PUBLIC_URL.length), item]),
    );
    expect([...byUrl.keys()].toSorted()).toEqual([
      "/.x402/credits/0.05",
      "/.x402/credits/1",
      "/plain",
      "/weather",
    ]);
    expect(byUrl.get("/weather")?.metadata).toMatchObject({ credits: { buy: BUY } });
    expect(byUrl.get("/plain")?.metadata).toBeUndefined();
    const { paths } = await json("/openapi.json");
    expect(paths["/weather"].get.description).toContain("/.x402/credits");
    expect(paths["/plain"].get.description).toBeUndefined();
    expect(Object.keys(paths["/.x402/credits/1"])).toEqual(["get", "post"]);
    const text = await (await fetch(`${shop.url}/llms.txt`)).text();
    expect(text).toContain(`Or from credits, bought at ${BUY}.`);
    const catalogue = await (await fetch(`${shop.url}/catalogue`)).text();
    expect(catalogue).toContain(`Or from <a href="${BUY}">credits</a>`);
  });
});
