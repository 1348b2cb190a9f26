/** A backend that leads its buyers on, by whatever way they pay: the goods are behind the redirect, and are had for what was paid. */
import { mkdtemp, rm } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import {
  inHeader,
  present,
  PURSE,
  quote,
  richBuyer,
  sign,
  VERSIONS,
  type PaidAnswer,
} from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, signPayment, type FreshAccount } from "../support/payer.ts";
import { openSessionAt } from "../support/sign-in.ts";
import type { X402Version } from "../../src/x402/x402.ts";

const closing = new AsyncDisposableStack();
let chain: Chain;
let partner: FreshAccount;
let more: string;
let gateway: RunningGateway;

const PARTNERS = "prices: { partners: $0.004 }";
const ROUTES = `
  GET /member/*: { price: $0.01, ${PARTNERS} }
  GET /followed/*: { price: $0.01, ${PARTNERS}, redirects: follow }
  GET /worked/*: { price: $0.01, ${PARTNERS}, settle: after }
  GET /there: { price: $0.01, ${PARTNERS} }
  GET /dear: { price: $0.01 }
  GET /computed/*: { price: { by: 'query.n == "2" ? "$0.02" : "$0.01"', from: $0.01, to: $0.02 } }
  GET /steps/*: { price: { by: 'query.n == "2" ? "$0.02" : "$0.01"', from: $0.01, to: $0.02 }, redirects: follow }
  GET /counted/*: { price: $0.01, grants: { for: 24h, times: 2 } }
  GET /free/*: { price: $0.01, free: 2/d by address }
`;

/** Directories end in a slash; `?to=` leads anywhere. */
const backend: RequestListener = (request, response) => {
  const { pathname, search, searchParams } = new URL(request.url ?? "", "http://backend");
  const named = searchParams.get("to");
  if (named !== null) response.writeHead(302, { Location: named }).end("elsewhere");
  else if (pathname.endsWith("/") || pathname === "/there" || pathname === "/dear")
    response.end(`goods of ${pathname}`);
  else response.writeHead(301, { Location: `${pathname}/${search}` }).end("moved");
};

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  partner = await richBuyer(chain);
  more = `members: { partners: "${partner.address}" }`;
  gateway = closing.use(await startGateway({ chain, routes: ROUTES, more, backend }));
});

afterAll(() => closing.disposeAsync());

const spentBy = async ({ address }: Pick<FreshAccount, "address">): Promise<bigint> =>
  PURSE - (await chain.balanceOf(address));

/** As a partner is asked for it. */
async function signedAsPartner(
  buyer: FreshAccount,
  path: string,
  version: X402Version,
): Promise<string> {
  const session = await openSessionAt(gateway.url, partner);
  const asked = { headers: { [SESSION_HEADER]: session } };
  const paymentRequirements = await quote(gateway.url + path, asked);
  const { account } = buyer;
  const paymentPayload = await signPayment({ account, requirements: paymentRequirements });
  return inHeader({ paymentPayload, paymentRequirements }, version);
}

/** With the same payment at each place, as stock clients go there. */
async function shownAt(
  at: RunningGateway,
  header: string,
  paths: readonly string[],
  version: X402Version = 1,
): Promise<readonly PaidAnswer[]> {
  const answers: PaidAnswer[] = [];
  for (const path of paths) {
    answers.push(await present(at.url + path, header, { redirect: "manual" }, version));
  }
  return answers;
}

const told = (answers: readonly PaidAnswer[]): unknown =>
  answers.map(({ status, text }) => [status, status === 200 ? text : ""]);

describe.each(VERSIONS)("who pays what his group pays, version %i", (version) => {
  it.each(["/member", "/worked"])("is led on within a route, and charged once: %s", async (at) => {
    const before = await spentBy(partner);
    const path = `${at}/v${version}`;
    const header = await signedAsPartner(partner, path, version);
    const answers = await shownAt(gateway, header, [path, `${path}/`], version);
    expect(told(answers)).toEqual([
      [301, ""],
      [200, `goods of ${path}/`],
    ]);
    expect(await spentBy(partner)).toBe(before + 4_000n);
  });

  it("has what is followed for him", async () => {
    const path = `/followed/v${version}`;
    const header = await signedAsPartner(partner, path, version);
    const answers = await shownAt(gateway, header, [path], version);
    expect(told(answers)).toEqual([[200, `goods of ${path}/`]]);
  });

  it("is led to another route where it has his price, and not where it has none", async () => {
    const paths = [`/member/?to=/there&v=${version}`, "/there"];
    const header = await signedAsPartner(partner, "/member/", version);
    const answers = await shownAt(gateway, header, paths, version);
    expect(told(answers)).toEqual([
      [302, ""],
      [200, "goods of /there"],
    ]);
    const other = await signedAsPartner(partner, "/member/", version);
    const dear = [`/member/?to=/dear&v=${version}`, "/dear"];
    expect(told(await shownAt(gateway, other, dear, version))).toEqual([
      [302, ""],
      [402, ""],
    ]);
  });
});

describe("a price of each request", () => {
  it("is paid behind a redirect where it is the same, once", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${gateway.url}/computed/x?n=1`);
    const answers = await shownAt(gateway, header, ["/computed/x?n=1", "/computed/x/?n=1"]);
    expect(told(answers)).toEqual([
      [301, ""],
      [200, "goods of /computed/x/"],
    ]);
    expect(await spentBy(buyer)).toBe(10_000n);
  });

  it.each([
    ["dearer", "/steps/x/?n=1&to=/steps/x/%3Fn=2"],
    ["cheaper", "/steps/x/?n=2&to=/steps/x/%3Fn=1"],
  ])("is not where it is %s", async (_, from) => {
    const buyer = await richBuyer(chain);
    const answers = await shownAt(gateway, await sign(buyer, gateway.url + from), [from]);
    expect(told(answers)).toEqual([[302, ""]]);
  });
});

describe("a price that was lower", () => {
  const routes = (price: string) => `\n  GET /*: { price: ${price} }\n`;
  const goods = (path: string) => [
    [301, ""],
    [200, `goods of ${path}/`],
  ];

  it("is enough behind a redirect for who was asked for it", async () => {
    await using shop = await startGateway({ chain, routes: routes("$0.01"), backend });
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${shop.url}/quoted`);
    expect(await shop.reroute(routes("$0.02"))).toBe(true);
    expect(told(await shownAt(shop, header, ["/quoted", "/quoted/"]))).toEqual(goods("/quoted"));
    expect(await spentBy(buyer)).toBe(10_000n);
  });

  it("is enough for who has paid it, and is owed what is behind a redirect by now", async () => {
    const folder = await mkdtemp(join(tmpdir(), "coinslot-redirected-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const storePath = join(folder, "ledger.db");
    const { address: payee } = freshAccount();
    const buyer = await richBuyer(chain);
    const life = (price: string, own: RequestListener) =>
      startGateway({ chain, routes: routes(price), backend: own, storePath, payee });
    const owedBy = async (): Promise<string> => {
      await using shop = await life("$0.01", (_, response) => void response.writeHead(503).end());
      const header = await sign(buyer, `${shop.url}/owed`);
      expect(await shownAt(shop, header, ["/owed"])).toMatchObject([{ status: 503 }]);
      return header;
    };
    const header = await owedBy();
    await using shop = await life("$0.02", backend);
    expect(told(await shownAt(shop, header, ["/owed", "/owed/"]))).toEqual(goods("/owed"));
    expect(await spentBy(buyer)).toBe(10_000n);
  });
});

it("a redirect uses nothing up of what is counted, and one to elsewhere does", async () => {
  const buyer = await richBuyer(chain);
  const url = `${gateway.url}/counted/x/`;
  expect((await present(url, await sign(buyer, url))).status).toBe(200);
  const headers = { [SESSION_HEADER]: await openSessionAt(gateway.url, buyer) };
  const elsewhere = "?to=https://elsewhere.example/";
  for (const at of ["/counted", "/free"]) {
    const asks = async (path: string, redirect: "follow" | "manual" = "follow") =>
      (await fetch(`${gateway.url}${at}${path}`, { headers, redirect })).status;
    expect([at, await asks("/one"), await asks(`/two/${elsewhere}`, "manual")]).toEqual([
      at,
      200,
      302,
    ]);
    expect([at, await asks("/three", "manual")]).toEqual([at, 402]);
  }
});
