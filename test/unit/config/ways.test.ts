/** How a route is had beside a payment for each request: the same for people and for programs. */
import { expect, test } from "vitest";
import { waysFacts, waysText } from "../../../src/config/config.ts";
import { parse } from "./fixture.ts";

const FILE = `
upstream: http://localhost:3000
publicUrl: https://paper.example.com
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
unmatched: deny
passes:
  day: { price: $1, routes: [GET /a, GET /b], for: 24h, times: 50 }
  month: { price: $9.50, routes: [GET /a], for: 30d }
routes:
  GET /a: { price: $0.10, description: A, free: 3/h by address, grants: { for: 90m, times: 5 } }
  GET /b: { price: $0.10, description: B, grants: 7d }
  GET /c: { price: $0.10, description: C, free: 1/d by payer }
  GET /d: { price: $0.10, description: D }
`;

test("tells what is free, what a purchase grants, and which passes open it", () => {
  const config = parse(FILE);
  const of = (wanted: string) => {
    const route = config.routes.find(({ key }) => key === wanted);
    if (route?.action.kind !== "priced") throw new Error(`${wanted} is not sold`);
    return [waysText(route, route.action, config), waysFacts(route, route.action, config)];
  };
  const url = "https://paper.example.com/.x402/passes";
  const day = { name: "day", url: `${url}/day`, price: "$1", seconds: 86_400, requests: 50 };
  expect(of("GET /a")).toEqual([
    [
      "3 requests of an address are free each hour",
      "who has paid has 5 more requests for 90m, signed in",
      "the pass day opens it: $1 for 1d, 50 requests at /.x402/passes/day",
      "the pass month opens it: $9.50 for 30d at /.x402/passes/month",
    ],
    {
      free: { requests: 3, seconds: 3_600, by: "address" },
      grants: { seconds: 5_400, requests: 5 },
      passes: [day, { name: "month", url: `${url}/month`, price: "$9.50", seconds: 2_592_000 }],
    },
  ]);
  expect(of("GET /b")).toEqual([
    [
      "who has paid has all of it for 7d, signed in",
      "the pass day opens it: $1 for 1d, 50 requests at /.x402/passes/day",
    ],
    { grants: { seconds: 604_800 }, passes: [day] },
  ]);
  expect(of("GET /c")).toEqual([
    ["1 requests of an account that signs in are free each day (UTC)"],
    { free: { requests: 1, seconds: 86_400, by: "payer" } },
  ]);
  expect(of("GET /d")).toEqual([[], {}]);
  const own = config.routes.filter(({ key }) => key.includes("/.x402/passes/"));
  expect(own.map(({ key }) => key)).toEqual([
    "GET,POST /.x402/passes/day",
    "GET,POST /.x402/passes/month",
  ]);
});

test("of another host those of its own are told, with its own place", () => {
  const config = parse(
    FILE.replace(
      "routes:\n",
      `hosts:
  shop.example.com:
    passes: { day: { price: $2, routes: [GET /a], for: 12h } }
    routes: { GET /a: { price: $0.10, description: A, credits: true } }
credits: { packs: [$1] }
routes:
`,
    ),
  );
  const route = config.routes.find(({ key }) => key === "shop.example.com GET /a");
  if (route?.action.kind !== "priced") throw new Error("it is not sold");
  const site = "https://shop.example.com/.x402";
  expect(waysText(route, route.action, config)).toEqual([
    "the pass day opens it: $2 for 12h at /.x402/passes/day",
    "a session may pay it from what its account has prepaid at /.x402/credits",
  ]);
  expect(waysFacts(route, route.action, config)).toEqual({
    passes: [{ name: "day", url: `${site}/passes/day`, price: "$2", seconds: 43_200 }],
    credits: { buy: `${site}/credits` },
  });
});
