/** Who holds a token is a member: as his chain says of an account that he has proven, and of nobody else. */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { X402_VERSION, type PaymentRequirements } from "../../src/x402/x402.ts";
import { inHeader, present, PURSE, quote, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, signPayment, type FreshAccount } from "../support/payer.ts";
import { Site, type Served } from "../support/serve.ts";
import { challengeOf, showSignIn, signChallenge } from "../support/sign-in.ts";
import { bothWorkersOf, connectTo, startBackend, startSeller } from "./workers/stage.ts";

vi.setConfig({ testTimeout: 60_000 });

const SIGN_IN = "/.well-known/x402/sign-in";
/** What holders have: as much as a rich buyer has at first. */
const LEAST = PURSE / 1_000_000n;
/** Answers 2 whatever it is asked, as a contract of two works of art would. */
const TWO = "0x600260005260206000f3";
const ART = "0x7777777777777777777777777777777777777777";
/** Nothing is there. */
const NOTHING = "0x6666666666666666666666666666666666666666";

const held = (network: string): string => `
members:
  rich: { token: USDC, network: ${network}, atLeast: ${LEAST} }
  collectors: { token: "${ART}", network: ${network}, decimals: 0, atLeast: 2 }
  many: { token: "${ART}", network: ${network}, decimals: 0, atLeast: 3 }
  nowhere: { token: "${NOTHING}", network: ${network}, decimals: 0 }
`;
const ROUTES = `
  GET /report: { price: $0.01, description: A report, prices: { rich: free } }
  GET /cheap: { price: $0.01, description: Cheaper for some, prices: { rich: $0.004 } }
  GET /art: { price: $0.01, description: For collectors, prices: { many: free, collectors: free } }
  GET /many: { price: $0.01, description: For nobody, prices: { many: free } }
  GET /nowhere: { price: $0.01, description: Of no token, prices: { nowhere: free } }
  GET /plain: { price: $0.01, description: The same for everybody }
`;

const closing = new AsyncDisposableStack();
let chain: Chain;
let gateway: RunningGateway;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  await chain.rpc("anvil_setCode", [ART, TWO]);
  const more = held(chain.network.name);
  gateway = closing.use(await startGateway({ chain, routes: ROUTES, more }));
});

afterAll(() => closing.disposeAsync());

async function openSession(
  { account }: Pick<FreshAccount, "account">,
  url = gateway.url,
): Promise<{ readonly status: number; readonly error: string; readonly session: string }> {
  const challenge = await (await fetch(url + SIGN_IN)).json();
  const header = await signChallenge(Object(challenge), account);
  const init = { method: "POST", headers: { "SIGN-IN-WITH-X": header } };
  const answer = await fetch(url + SIGN_IN, init);
  const { session = "", error = "" } = Object(await answer.json());
  return { status: answer.status, error: String(error), session: String(session) };
}

const by = (session: string, path: string): Promise<Response> =>
  fetch(gateway.url + path, { headers: { [SESSION_HEADER]: session } });

async function signedIn({ account }: FreshAccount, path: string) {
  const url = gateway.url + path;
  return showSignIn(url, await signChallenge(await challengeOf(url), account));
}

/** How often the chain was asked. */
async function questions(url = gateway.adminUrl): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const lines = text.match(/^coinslot_holder_questions_total\{.*\} \d+$/gm) ?? [];
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

const payment = async ({ account }: FreshAccount, requirements: PaymentRequirements) =>
  inHeader(
    {
      paymentPayload: await signPayment({ account, requirements }),
      paymentRequirements: requirements,
    },
    X402_VERSION,
  );

describe("who holds enough", () => {
  it("has it for nothing by a sign-in, and by a session, about which nobody is asked again", async () => {
    const holder = await richBuyer(chain);
    expect((await signedIn(holder, "/report")).status).toBe(200);
    expect(gateway.upstream.at(-1)?.headers).toMatchObject({
      "x-402-payer": holder.address,
      "x-402-group": "rich",
    });
    const { session, status } = await openSession(holder);
    expect(status).toBe(200);
    const before = await questions();
    for (let times = 0; times < 3; times += 1) {
      expect((await by(session, "/report")).status).toBe(200);
    }
    expect(await questions()).toBe(before);
    expect(await chain.balanceOf(holder.address)).toBe(PURSE);
  });

  it("pays what his group does, without a sign-in, and nobody else does", async () => {
    const url = `${gateway.url}/cheap`;
    const cheap = { ...(await quote(url)), maxAmountRequired: "4000" };
    const holder = await richBuyer(chain);
    const poor = freshAccount();
    await chain.fund(poor.address, PURSE - 1n);
    expect((await present(url, await payment(poor, cheap))).status).toBe(402);
    expect((await present(url, await payment(holder, cheap))).status).toBe(200);
    expect(await chain.balanceOf(holder.address)).toBe(PURSE - 4_000n);
    expect(await chain.balanceOf(poor.address)).toBe(PURSE - 1n);
  });

  it("may hold works of art, of which he has to have as many as are wanted", async () => {
    const collector = freshAccount();
    const { session } = await openSession(collector);
    expect((await by(session, "/art")).status).toBe(200);
    expect(gateway.upstream.at(-1)?.headers["x-402-group"]).toBe("collectors");
    expect((await by(session, "/many")).status).toBe(402);
  });
});

describe("who holds too little", () => {
  it("is told what it costs anybody, by a sign-in and by a session", async () => {
    const poor = freshAccount();
    await chain.fund(poor.address, PURSE - 1n);
    const answer = await signedIn(poor, "/report");
    expect(answer).toMatchObject({
      status: 402,
      said: { error: expect.stringContaining("no_purchase") },
    });
    const { session } = await openSession(poor);
    expect((await by(session, "/report")).status).toBe(402);
  });
});

describe("nobody is asked", () => {
  it("about an account that is not proven, nor for a route that has no such group", async () => {
    const holder = await richBuyer(chain);
    const stranger = freshAccount();
    const before = await questions();
    const url = `${gateway.url}/report`;
    const named = await signChallenge(await challengeOf(url), stranger.account, (told) => ({
      ...told,
      address: holder.address,
    }));
    expect((await showSignIn(url, named)).said.error).toContain("signature");
    const cheap = { ...(await quote(`${gateway.url}/cheap`)), maxAmountRequired: "4000" };
    const forged = inHeader(
      {
        paymentPayload: await signPayment({
          account: stranger.account,
          requirements: cheap,
          overrides: { from: holder.address },
        }),
        paymentRequirements: cheap,
      },
      X402_VERSION,
    );
    expect((await present(`${gateway.url}/cheap`, forged)).status).toBe(402);
    expect((await signedIn(stranger, "/plain")).status).toBe(402);
    expect(await questions()).toBe(before);
  });
});

describe("where it cannot be asked who holds it", () => {
  it("nobody is a member, and is told why", async () => {
    const somebody = freshAccount();
    const answer = await signedIn(somebody, "/nowhere");
    expect(answer.status).toBe(402);
    expect(answer.said.error).toContain("could not be asked whether this account holds");
    const { session } = await openSession(freshAccount());
    const shown = await by(session, "/nowhere");
    expect(shown.status).toBe(402);
    expect(Object(await shown.json()).error).toContain("could not be asked");
  });

  it("a sign-in that might be a member's is not turned down", async () => {
    const more = `members:\n  nowhere: { token: "${NOTHING}", network: ${chain.network.name}, decimals: 0 }`;
    const routes = ROUTES.split("\n")
      .filter((line) => !line.includes("prices") || line.includes("nowhere"))
      .join("\n");
    await using shop = await startGateway({ chain, routes, more });
    expect(await openSession(freshAccount(), shop.url)).toMatchObject({
      status: 503,
      error: expect.stringContaining("could not be asked"),
    });
  });
});

describe("a reload", () => {
  it("makes members of those who hold it, and no members of them", async () => {
    const more = held(chain.network.name);
    const plain = ROUTES.replace("prices: { rich: free }", "grants: 24h");
    await using shop = await startGateway({ chain, routes: plain, more });
    const holder = await richBuyer(chain);
    const { session } = await openSession(holder, shop.url);
    const status = async (): Promise<number> => {
      const headers = { [SESSION_HEADER]: session };
      return (await fetch(`${shop.url}/report`, { headers })).status;
    };
    expect(await status()).toBe(402);
    expect(await shop.reroute(ROUTES)).toBe(true);
    expect(await status()).toBe(200);
    expect(await shop.reroute(ROUTES, more.replace(`atLeast: ${LEAST}`, "atLeast: 1000"))).toBe(
      true,
    );
    expect(await status()).toBe(402);
  });
});

describe("a balance", () => {
  it("is not debited for what its owner has for nothing, though nobody knew that yet", async () => {
    const more = `${held(chain.network.name)}\ncredits: { packs: [$1] }`;
    const priced = ROUTES.replace("prices: { rich: free }", "credits: true");
    await using shop = await startGateway({ chain, routes: priced, more });
    const holder = freshAccount();
    await chain.fund(holder.address, PURSE + 1_000_000n);
    const url = `${shop.url}/.x402/credits`;
    const bought = await present(url, await sign(holder, url), { method: "POST" });
    expect(bought.status).toBe(200);
    const { session } = await openSession(holder, shop.url);
    const ask = () => fetch(`${shop.url}/report`, { headers: { [SESSION_HEADER]: session } });
    expect((await ask()).headers.get("X-402-Charged")).toBe("0.01 USDC");
    const freed = ROUTES.replace("prices: { rich: free }", "credits: true, prices: { rich: free }");
    const least = more.replace(`atLeast: ${LEAST}`, "atLeast: 2");
    expect(await shop.reroute(freed, least)).toBe(true);
    const had = await ask();
    expect([had.status, had.headers.get("X-402-Charged")]).toEqual([200, null]);
    expect(shop.upstream.at(-1)?.headers["x-402-group"]).toBe("rich");
  });
});

describe("two workers", () => {
  it("ask the process with the money, each once", async () => {
    const seller = await startSeller();
    closing.defer(() => seller.chain.stop());
    await using backend = await startBackend((_request, response) => void response.end("fine"));
    await using site = await Site.create();
    const { name } = seller.chain.network;
    const members = `members: { rich: { token: USDC, network: ${name}, atLeast: ${LEAST} } }\n`;
    const routes = `  GET /report/*: { price: $0.01, description: A report, prices: { rich: free } }
  GET /who/*: free
`;
    const yaml = members + seller.yaml(backend, routes);
    const served: Served = await site.serve(yaml, seller.env);
    await served.untilReady();
    await bothWorkersOf(served);
    using first = await connectTo(served, 1);
    using second = await connectTo(served, 2);
    const holder = await richBuyer(seller.chain);
    const { session } = await openSession(holder, served.url);
    const headers = { [SESSION_HEADER]: session };
    for (const each of [first, second, first, second]) {
      expect((await each.get("/report/1", headers)).status).toBe(200);
    }
  });
});
