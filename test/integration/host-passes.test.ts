/** Passes of several sites in one file: each opens what is sold under its own name, and nothing under another. */
import { request, type OutgoingHttpHeaders } from "node:http";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it } from "vitest";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { SIGN_IN_HEADER, SIGN_IN_PATH } from "../../src/x402/sign-in.ts";
import { headerJson, inHeader, richBuyer } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { signPayment, type FreshAccount } from "../support/payer.ts";
import { signChallenge } from "../support/sign-in.ts";

const OWN = "localhost:8402";
const SHOP = "shop.localhost:8402";
const OTHER = "other.localhost:8402";
const PASS = "/.x402/passes/day";
const ROUTES = `
  GET /articles/*: { price: $0.01, description: An article }
`;
/** The same names and the same paths, but for the price and the count. */
const MORE = `
passes: { day: { price: $0.10, routes: [GET /articles/*], for: 24h } }
hosts:
  shop.localhost:
    passes: { day: { price: $0.20, routes: [GET /articles/*], for: 24h, times: 3 } }
    routes:
      GET /articles/*: { price: $0.02, description: Another article }
      GET /puzzle: { price: $0.02, description: A puzzle }
  other.localhost:
    routes: { GET /articles/*: { price: $0.03, description: A third article } }
`;

const closing = new AsyncDisposableStack();
let chain: Chain;
let gateway: RunningGateway;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  gateway = closing.use(await startGateway({ chain, routes: ROUTES, more: MORE }));
});

afterAll(() => closing.disposeAsync());

interface Asked {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

async function ask(
  host: string,
  path: string,
  { method = "GET", headers = {} }: { method?: string; headers?: OutgoingHttpHeaders } = {},
): Promise<Asked> {
  const asked = Promise.withResolvers<Asked>();
  const sent = request(gateway.url + path, { method, headers: { host, ...headers } }, (answer) => {
    const lines = Object.entries(answer.headersDistinct).flatMap(([name, values = []]) =>
      values.map((value): [string, string] => [name, value]),
    );
    const status = answer.statusCode ?? 0;
    text(answer).then(
      (body) => asked.resolve({ status, headers: new Headers(lines), text: body }),
      asked.reject,
    );
  });
  sent.once("error", asked.reject).end();
  return asked.promise;
}

async function buy(host: string, path: string, { account }: FreshAccount): Promise<Asked> {
  const [paymentRequirements] = Object(JSON.parse((await ask(host, path)).text)).accepts;
  const paymentPayload = await signPayment({ account, requirements: paymentRequirements });
  const payment = inHeader({ paymentPayload, paymentRequirements }, 1);
  return ask(host, path, { headers: { "X-PAYMENT": payment } });
}

async function sessionAt(host: string, { account }: FreshAccount): Promise<string | null> {
  const challenge = Object(JSON.parse((await ask(host, SIGN_IN_PATH)).text));
  const header = await signChallenge(challenge, account);
  const headers = { [SIGN_IN_HEADER]: header };
  const answer = await ask(host, SIGN_IN_PATH, { method: "POST", headers });
  return Object(JSON.parse(answer.text)).session ?? null;
}

const asks = async (host: string, path: string, session: string | null): Promise<number> =>
  (await ask(host, path, { headers: { [SESSION_HEADER]: session ?? "" } })).status;

it("are told beside the price at their own site alone, with its own place", async () => {
  const passesOf = async (host: string, path: string): Promise<unknown> => {
    const { headers } = await ask(host, path);
    return headerJson(headers, "PAYMENT-REQUIRED").extensions.passes?.info.passes;
  };
  const day = { name: "day", seconds: 86_400 };
  expect(await passesOf(OWN, "/articles/1")).toEqual([
    { ...day, url: `http://${OWN}${PASS}`, price: "$0.10" },
  ]);
  const sold = { ...day, url: `http://${SHOP}${PASS}`, price: "$0.20", requests: 3 };
  expect(await passesOf(SHOP, "/articles/1")).toEqual([sold]);
  expect(await passesOf(SHOP, "/puzzle")).toBeUndefined();
  expect(await passesOf(OTHER, "/articles/1")).toBeUndefined();
  expect((await ask(OTHER, PASS)).status).toBe(404);
  // In what is listed, too: of each its own.
  const listed = (await ask(SHOP, "/discovery/resources")).text;
  expect(listed).toContain(`http://${SHOP}${PASS}`);
  expect(listed).not.toContain(`http://${OWN}${PASS}`);
});

it("open what is sold where they were bought, as often as they are good for, and nothing elsewhere", async () => {
  const buyer = await richBuyer(chain);
  const bought = await buy(SHOP, PASS, buyer);
  expect(bought.status).toBe(200);
  expect(JSON.parse(bought.text)).toMatchObject({ pass: "day", opens: ["GET /articles/*"] });
  const session = await sessionAt(SHOP, buyer);
  expect(session).not.toBeNull();
  expect(await asks(SHOP, "/articles/1", session)).toBe(200);
  expect(await asks(SHOP, "/puzzle", session)).toBe(402);
  // With the session of where he has bought it, and with one of each site's own.
  for (const host of [OWN, OTHER]) {
    expect(await asks(host, "/articles/1", session)).toBe(402);
    const own = await sessionAt(host, buyer);
    expect(own).not.toBeNull();
    expect(await asks(host, "/articles/1", own)).toBe(402);
  }
  expect(await asks(SHOP, "/articles/2", session)).toBe(200);
  expect(await asks(SHOP, "/articles/3", session)).toBe(200);
  expect(await asks(SHOP, "/articles/4", session)).toBe(402);
});

it("of the file's own site open nothing of a host's, with the same name and path as they are", async () => {
  const buyer = await richBuyer(chain);
  expect((await buy(OWN, PASS, buyer)).status).toBe(200);
  expect(await asks(OWN, "/articles/1", await sessionAt(OWN, buyer))).toBe(200);
  expect(await asks(SHOP, "/articles/1", await sessionAt(SHOP, buyer))).toBe(402);
});
