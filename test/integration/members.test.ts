/** Members pay another price, or none: by a sign-in, by a session that they got for one, and by what they pay with. */
import type { SIWxPayload } from "@x402/extensions/sign-in-with-x";
import { serializeErc6492Signature, type Hex } from "viem";
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import {
  X402_VERSION,
  type EvmAuthorization,
  type PaymentRequirements,
} from "../../src/x402/x402.ts";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { headerJson, inHeader, present, PURSE, quote, richBuyer } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { evmClients } from "../support/evm-clients.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, signPayment, type FreshAccount } from "../support/payer.ts";
import { challengeOf, returningBuyer, showSignIn, signChallenge } from "../support/sign-in.ts";

const closing = new AsyncDisposableStack();
let chain: Chain;
let gateway: RunningGateway;
let partner: FreshAccount;
let staff: FreshAccount;
/** Smart wallets of one owner: on the list with their chain, and without it. */
let named: `0x${string}`;
let unnamed: `0x${string}`;
const owner = freshAccount();

const PRICES = "prices: { staff: free, partners: $0.004 }";
const ROUTES = `
  GET /report: { price: $0.01, description: A report, ${PRICES} }
  GET /papers/*: { price: $0.01, description: A paper, grants: 24h }
  GET /plain: { price: $0.01, description: The same for everybody }
`;
const SIGN_IN = "/.well-known/x402/sign-in";

const groups = () =>
  `members: { staff: ["${staff.address}", "eip155:84532:${named}", "${unnamed}"], partners: "${partner.address}" }`;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  [partner, staff] = [await richBuyer(chain), await richBuyer(chain)];
  [named, unnamed] = [
    await chain.deployWallet(owner.address),
    await chain.deployWallet(owner.address),
  ];
  const files = { "staff.txt": staff.address, "partners.txt": partner.address };
  gateway = closing.use(await startGateway({ chain, routes: ROUTES, more: groups(), files }));
});

afterAll(() => closing.disposeAsync());

const charged = async ({ address }: Pick<FreshAccount, "address">): Promise<bigint> =>
  PURSE - (await chain.balanceOf(address));

/** For what its buyer thinks that it costs. */
async function paymentOf(
  { account }: FreshAccount,
  requirements: PaymentRequirements,
  overrides: Partial<EvmAuthorization> = {},
): Promise<string> {
  const payment = await signPayment({ account, requirements, overrides });
  return inHeader({ paymentPayload: payment, paymentRequirements: requirements }, X402_VERSION);
}

const amountOf = (headers: Headers): unknown =>
  headerJson(headers, "PAYMENT-REQUIRED")?.accepts[0].amount;

/** As programs get it. */
async function openSession({ account }: Pick<FreshAccount, "account">, at = gateway) {
  const place = at.url + SIGN_IN;
  const challenge = await (await fetch(place)).json();
  const header = await signChallenge(Object(challenge), account);
  const answer = await fetch(place, { method: "POST", headers: { "SIGN-IN-WITH-X": header } });
  const told = Object(await answer.json());
  return { status: answer.status, headers: answer.headers, header, told };
}

const by = (token: string, path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(gateway.url + path, {
    ...init,
    headers: { ...Object(init.headers), [SESSION_HEADER]: token },
  });

describe("a sign-in", () => {
  it("has it for nothing where the account is in a group that pays nothing, once", async () => {
    const url = `${gateway.url}/report`;
    const header = await signChallenge(await challengeOf(url), staff.account);
    expect((await showSignIn(url, header)).status).toBe(200);
    const seen = gateway.upstream.at(-1)?.headers;
    expect(seen).toMatchObject({ "x-402-payer": staff.address, "x-402-group": "staff" });
    expect(seen?.["sign-in-with-x"]).toBeUndefined();
    const again = await showSignIn(url, header);
    expect(again).toMatchObject({ status: 402, said: { error: expect.stringContaining("nonce") } });
    expect(await charged(staff)).toBe(0n);
  });

  it("is asked what its group pays; the official client pays what it was asked before it signed in", async () => {
    const member = await richBuyer(chain);
    const more = groups().replace(partner.address, member.address);
    await using shop = await startGateway({ chain, routes: ROUTES, more });
    const url = `${shop.url}/report`;
    const header = await signChallenge(await challengeOf(url), member.account);
    const { status, headers } = await showSignIn(url, header);
    expect([status, amountOf(headers)]).toEqual([402, "4000"]);
    expect((await returningBuyer(shop.url, member)("/report?by=sign-in")).status).toBe(200);
    expect(await charged(member)).toBe(10_000n);
    const { told } = await openSession(member, shop);
    const known = { headers: { [SESSION_HEADER]: told.session } };
    const bought = await returningBuyer(shop.url, member)("/report?by=session", known);
    expect(bought.status).toBe(200);
    expect(await charged(member)).toBe(14_000n);
  });

  it("changes nothing for anybody else, nor for somebody who names a member", async () => {
    const url = `${gateway.url}/report`;
    const stranger = freshAccount();
    const own = await signChallenge(await challengeOf(url), stranger.account);
    expect((await showSignIn(url, own)).said.error).toContain("no_purchase");
    const named = await signChallenge(await challengeOf(url), stranger.account, (told) => ({
      ...told,
      address: staff.address,
    }));
    expect((await showSignIn(url, named)).said.error).toContain("signature");
    const other = await showSignIn(
      `${gateway.url}/plain`,
      await signChallenge(await challengeOf(`${gateway.url}/plain`), staff.account),
    );
    expect(other.status).toBe(402);
  });

  it("is of a smart wallet on the chain that the list names with it, and on no other", async () => {
    const url = `${gateway.url}/report`;
    const as = async (wallet: `0x${string}`, change = (same: SIWxPayload) => same) => {
      const signer = {
        address: wallet,
        signMessage: owner.account.signMessage.bind(owner.account),
      };
      const header = await signChallenge(await challengeOf(url), signer, change);
      return (await showSignIn(url, header)).status;
    };
    expect(await as(named)).toBe(200);
    expect(await as(unnamed)).toBe(402);
    const wrapped = (answer: SIWxPayload): SIWxPayload => {
      const signature = serializeErc6492Signature({
        address: named,
        data: "0x01",
        signature: answer.signature as Hex,
      });
      return { ...answer, signature };
    };
    expect(await as(named, wrapped)).toBe(200);
    expect(await as(unnamed, wrapped)).toBe(402);
  });
});

describe("a payment", () => {
  it.each(Object.entries(evmClients))(
    "of %s buys at the price of everybody",
    async (_, { buy }) => {
      const member = await richBuyer(chain);
      expect(await buy(`${gateway.url}/report`, member)).toMatchObject({ status: 200 });
      expect(await charged(member)).toBe(10_000n);
    },
  );

  it("of a member buys at the group's price without a sign-in, and of nobody else", async () => {
    const url = `${gateway.url}/report`;
    const cheap = { ...(await quote(url)), maxAmountRequired: "4000" };
    const stranger = await richBuyer(chain);
    const before = await charged(partner);
    const pays = async (buyer: FreshAccount) => present(url, await paymentOf(buyer, cheap));
    expect(await pays(stranger)).toMatchObject({ status: 402 });
    expect(await pays(partner)).toMatchObject({ status: 200 });
    expect((await charged(partner)) - before).toBe(4_000n);
    expect(await charged(stranger)).toBe(0n);
  });

  it("in another's name is charged to nobody", async () => {
    const url = `${gateway.url}/report`;
    const cheap = { ...(await quote(url)), maxAmountRequired: "4000" };
    const before = await charged(partner);
    const thief = await richBuyer(chain);
    const forged = await paymentOf(thief, cheap, { from: partner.address });
    expect((await present(url, forged)).status).toBe(402);
    expect((await charged(partner)) - before).toBe(0n);
  });
});

describe("a session", () => {
  it("is given for a sign-in once, to members, as a token and as a cookie that pages cannot read", async () => {
    const opened = await openSession(staff);
    expect(opened).toMatchObject({
      status: 200,
      told: { payer: staff.address, header: SESSION_HEADER },
    });
    const cookie = opened.headers.get("set-cookie") ?? "";
    expect(cookie).toMatch(/^x402-session=[^;]+; Path=\/; Max-Age=3\d{3}; HttpOnly; SameSite=Lax$/);
    expect(opened.headers.get("cache-control")).toBe("no-store");
    const again = await fetch(gateway.url + SIGN_IN, {
      method: "POST",
      headers: { "SIGN-IN-WITH-X": opened.header },
    });
    expect(again.status).toBe(403);
    expect((await openSession(freshAccount())).status).toBe(403);
    const unsigned = await fetch(gateway.url + SIGN_IN, { method: "POST" });
    expect(unsigned.status).toBe(403);
  });

  it("has it as often as it likes, and no backend sees it", async () => {
    const { told, headers } = await openSession(staff);
    for (let times = 0; times < 3; times += 1) {
      const answer = await by(told.session, "/report");
      expect(answer.status).toBe(200);
      expect(answer.headers.get("cache-control")).toContain("private");
    }
    const cookie = (headers.get("set-cookie") ?? "").split(";", 1)[0];
    const kept = { headers: { cookie: `theme=dark; ${cookie}; lang=no` } };
    expect((await fetch(`${gateway.url}/report`, kept)).status).toBe(200);
    const seen = gateway.upstream.at(-1)?.headers;
    expect(seen).toMatchObject({ cookie: "theme=dark; lang=no", "x-402-payer": staff.address });
    expect(seen?.[SESSION_HEADER.toLowerCase()]).toBeUndefined();
    const alone = { headers: { cookie: String(cookie) } };
    expect((await fetch(`${gateway.url}/report`, alone)).status).toBe(200);
    expect(gateway.upstream.at(-1)?.headers["cookie"]).toBeUndefined();
    expect(await charged(staff)).toBe(0n);
  });

  it("is asked what its group pays; where it is of none, what everybody does", async () => {
    const partners = await openSession(partner);
    const asked = await by(partners.told.session, "/report?of=nobody");
    expect([asked.status, amountOf(asked.headers)]).toEqual([402, "4000"]);
    const plain = await by(partners.told.session, "/plain");
    expect([plain.status, amountOf(plain.headers)]).toEqual([402, "10000"]);
  });

  it("is no other's: changed, of another secret, too long, and without its MAC", async () => {
    const { told } = await openSession(staff);
    const token = String(told.session);
    const [said = "", mac = ""] = token.split(".");
    const forged = btoa(atob(said).replace(staff.address, partner.address));
    for (const wrong of [
      `${forged}.${mac}`,
      said,
      `${said}.`,
      `${said}.${mac}.${mac}`,
      `${said}.${"A".repeat(43)}`,
      "x".repeat(10_000),
    ]) {
      const answer = await by(wrong, "/report");
      expect(answer.status).toBe(402);
      expect(headerJson(answer.headers, "PAYMENT-REQUIRED").error).toContain("sign in");
      const kept = { headers: { cookie: `x402-session=${wrong}` } };
      expect((await fetch(`${gateway.url}/report`, kept)).status).toBe(402);
    }
    expect((await by(token, "/report")).status).toBe(200);
  });

  it("is forgotten by its browser, and by all with what the file says", async () => {
    const gone = await fetch(gateway.url + SIGN_IN, { method: "DELETE" });
    expect([gone.status, gone.headers.get("set-cookie")]).toEqual([
      204,
      "x402-session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax",
    ]);
    const { told } = await openSession(staff);
    const later = new Date(Date.now() + 5_000).toISOString().replace(/\.\d+/, "");
    expect(await gateway.reroute(ROUTES, `${groups()}\nsessions: { notBefore: "${later}" }`)).toBe(
      true,
    );
    expect((await by(told.session, "/report")).status).toBe(402);
    expect(await gateway.reroute(ROUTES, groups())).toBe(true);
    expect((await by(told.session, "/report")).status).toBe(200);
  });

  it("has nothing where its account may not pay here, or is not among those who alone may", async () => {
    const { told } = await openSession(staff);
    for (const rule of ["deny: staff.txt", "allow: partners.txt"]) {
      expect(await gateway.reroute(ROUTES, `${groups()}\npayers: { ${rule} }`)).toBe(true);
      const served = gateway.upstream.length;
      expect((await by(told.session, "/report")).status).toBe(403);
      expect(gateway.upstream).toHaveLength(served);
    }
    expect(await gateway.reroute(ROUTES, groups())).toBe(true);
    expect((await by(told.session, "/report")).status).toBe(200);
  });

  it("has it no longer when its account leaves the group; who was asked before pays that for a while", async () => {
    const { told } = await openSession(staff);
    const url = `${gateway.url}/report`;
    const cheap = { ...(await quote(url)), maxAmountRequired: "4000" };
    expect(
      await gateway.reroute(ROUTES.replace(PRICES, "prices: { partners: $0.005 }"), groups()),
    ).toBe(true);
    expect((await by(told.session, "/report")).status).toBe(402);
    const payment = await paymentOf(partner, cheap);
    expect((await present(url, payment)).status).toBe(200);
    expect(await gateway.reroute(ROUTES, groups())).toBe(true);
  });
});

test("who is known is told what it costs as often as anybody, and has what is his as often as he likes", async () => {
  const more = `${groups()}\nlimits: { unpaidPerIp: 3/m }`;
  await using shop = await startGateway({ chain, routes: ROUTES, more });
  const [token, own] = [await openSession(partner, shop), await openSession(staff, shop)].map(
    ({ told }) => String(told.session),
  );
  const asks = (shown = "", path = "/report") =>
    fetch(shop.url + path, { headers: { [SESSION_HEADER]: shown } });
  const statuses: number[] = [];
  for (let times = 0; times < 5; times += 1) statuses.push((await asks(token)).status);
  expect(statuses).toEqual([402, 402, 402, 429, 429]);
  for (let times = 0; times < 5; times += 1) expect((await asks(own)).status).toBe(200);
});

describe("what a purchase grants", () => {
  it("is all that its route serves, signed in with the account that has paid", async () => {
    const buyer = await richBuyer(chain);
    const buy = returningBuyer(gateway.url, buyer);
    expect((await buy("/papers/one")).status).toBe(200);
    expect((await buy("/papers/two")).status).toBe(200);
    expect((await buy("/papers/three")).status).toBe(200);
    expect(await charged(buyer)).toBe(10_000n);
    expect(gateway.upstream.at(-1)?.headers).toMatchObject({ "x-402-payer": buyer.address });
    expect(gateway.upstream.at(-1)?.headers["x-402-group"]).toBeUndefined();
    const { told } = await openSession(buyer);
    expect((await by(told.session, "/papers/four")).status).toBe(200);
    expect((await by(told.session, "/plain")).status).toBe(402);
    const other = await richBuyer(chain);
    const theirs = await returningBuyer(gateway.url, other)("/papers/two");
    expect(theirs.status).toBe(200);
    expect(await charged(other)).toBe(10_000n);
  });
});
