/** What `doctor` says of who can buy, and who cannot. */
import { expect, test } from "vitest";
import { clientChecks } from "../../../../src/diagnosis/doctor/client-checks.ts";
import { ODD_TOKENS, selling, waysToPay, type Selling } from "../selling.ts";

const ROUTES = ["GET /a: $0.05", "GET /b/:id: $0.25", "POST /c: $5", "GET /d: $0.10"];
const ALONE =
  "ok @x402 with schemes of version 1 alone: has no scheme of version 2, in which it is asked: ";
const MEND = "; its users register those of version 2 as well";

async function said(shop: Selling): Promise<readonly string[]> {
  const checks = clientChecks(selling(shop));
  const found = await Promise.all(checks.map(({ run }) => run(new AbortController().signal)));
  return found.flat().map(({ status, subject, message, fix }) => {
    if ((fix === null) !== (status === "ok")) throw new Error("a fix is for what is not right");
    return `${status} ${subject}: ${message}`;
  });
}

test("who cannot buy is named with the reason, and who can in a line for all routes alike", async () => {
  expect(await said({ routes: ROUTES })).toEqual([
    "warn x402-fetch 1.2.0: pays at most 100000 atomic units (0.10 USDC), whatever the token: GET /b/:id, POST /c",
    "warn @x402/fetch 2.27.0: pays at most $1, unless told otherwise: POST /c",
    "ok official clients: all can pay for GET /a, GET /d",
    "ok official clients: x402-axios 0.7.2, @x402/fetch 2.27.0, @x402/axios 2.11.0 can pay for GET /b/:id",
    "ok official clients: x402-axios 0.7.2, @x402/axios 2.11.0 can pay for POST /c",
    `${ALONE}GET /a, GET /b/:id, POST /c, GET /d${MEND}`,
  ]);
});

test.each(["avalanche-fuji", "iotex", "peaq", "polygon-amoy"])(
  "USDC on %s is no token of theirs",
  async (accept) => {
    expect(await said({ accept, routes: ROUTES.slice(0, 1) })).toEqual([
      "warn @x402/fetch 2.27.0: pays with the usual tokens only, unless told otherwise: GET /a",
      "ok official clients: x402-fetch 1.2.0, x402-axios 0.7.2, @x402/axios 2.11.0 can pay for GET /a",
      `${ALONE}GET /a${MEND}`,
    ]);
  },
);

test("wallets are named where they make a difference", async () => {
  const accept = "peaq, solana";
  expect(await said({ accept, routes: ROUTES.slice(0, 1) })).toEqual([
    "warn @x402/fetch 2.27.0: with an EVM account: pays with the usual tokens only, unless told otherwise: GET /a",
    "ok official clients: x402-fetch 1.2.0, x402-axios 0.7.2, @x402/fetch 2.27.0 with a Solana wallet, @x402/axios 2.11.0 can pay for GET /a",
    `${ALONE}GET /a${MEND}`,
  ]);
});

test("clients that refuse for one reason have one line", async () => {
  const more = "protocol: { v1: false }";
  expect(await said({ more, routes: ROUTES.slice(0, 2) })).toEqual([
    "warn x402-fetch 1.2.0, x402-axios 0.7.2: finds no offers in the body: GET /a, GET /b/:id",
    "ok official clients: @x402/fetch 2.27.0, @x402/axios 2.11.0 can pay for GET /a, GET /b/:id",
    `${ALONE}GET /a, GET /b/:id${MEND}`,
  ]);
});

test("without version 2 those are named who speak it alone", async () => {
  const more = "protocol: { v2: false }";
  expect(await said({ more, routes: ROUTES.slice(0, 1) })).toEqual([
    "ok official clients: all can pay for GET /a",
    "warn @x402 with schemes of version 2 alone: has no scheme of version 1, in which it is asked: GET /a",
  ]);
});

test("what nobody buys fails, and free routes are nothing for clients", async () => {
  const more = `${ODD_TOKENS}\nprotocol: { v1: false }`;
  const routes = [
    "GET /free: free",
    `GET /odd: { ${waysToPay(1)} }`,
    `GET /e: { ${waysToPay(40)} }`,
  ];
  expect(await said({ more, routes })).toEqual([
    "fail official clients: none pays for GET /e",
    "warn x402-fetch 1.2.0, x402-axios 0.7.2: finds no offers in the body: GET /odd, GET /e",
    "warn @x402/fetch 2.27.0: pays with the usual tokens only, unless told otherwise: GET /odd",
    "warn @x402/fetch 2.27.0, @x402/axios 2.11.0: finds nothing that asks for a payment: GET /e",
    "ok official clients: @x402/axios 2.11.0 can pay for GET /odd",
    `${ALONE}GET /odd${MEND}`,
  ]);
  expect(await said({ routes: ["GET /free: free"] })).toEqual([]);
});
