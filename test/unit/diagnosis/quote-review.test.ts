/** What `check` says of quotes that are too long: for nginx, and for themselves. */
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { reviewQuotes } from "../../../src/diagnosis/quote-review.ts";
import type { DryAnswer } from "../../../src/diagnosis/dry-gateway.ts";
import { quoteHeader, routeQuotes } from "../../../src/diagnosis/route-quotes.ts";
import { readHeaderJson } from "../../../src/buyer/offer.ts";
import { NETWORK_NAMES } from "../../../src/x402/network.ts";
import { accepting } from "../../support/accepting.ts";
import { ODD_TOKENS, selling, waysToPay, type Selling } from "./selling.ts";

function said(shop: Selling): readonly string[] {
  return reviewQuotes(selling(shop)).map(({ severity, path, fault }) => {
    return `${severity} ${path.join(".")} ${fault.code}: ${fault.message}; ${fault.suggestion}`;
  });
}

test("nothing is said of quotes that are as long as most", () => {
  const routes = ["GET /a: $0.01", "POST /b/:id: { price: $0.01, description: B }"];
  expect(said({ accept: "base, avalanche, polygon, solana", routes })).toEqual([]);
  expect(said({ routes: ["GET /free: free"] })).toEqual([]);
});

test("a head over 4,096 bytes is warned of with what makes it long, once for routes alike", () => {
  const routes = [1, 2, 3, 4, 5, 6].map((number) => `POST /${number}: $0.01`);
  const lines = said({ accept: accepting(NETWORK_NAMES), routes });
  expect(lines).toHaveLength(2);
  expect(lines[0]).toMatch(
    /^warning routes\.POST \/1 large-head: the 402 of POST \/1, POST \/2, POST \/3, POST \/4 and 2 more has a head of up to 4,[56]\d\d bytes \(12 ways to pay 4,2\d\d\): nginx .* or accept fewer networks$/,
  );
  expect(lines[1]).toMatch(
    /^note routes\.POST \/1 short-quote: PAYMENT-REQUIRED of .* and 2 more has no room for extension bazaar; buyers can pay all the same/,
  );
});

test("a long description is a cause, in whatever letters", () => {
  const description = "ж".repeat(450);
  const route = `POST /a: { price: $0.01, description: ${description} }`;
  expect(said({ routes: [route] })).toEqual([
    expect.stringMatching(
      /^warning .* bytes \(the description 3,603, the way to pay 3\d\d\): .* or shorten the description$/,
    ),
    expect.stringContaining("has no room for extension bazaar"),
  ]);
});

test("a browser is sent the longest head, and few bytes more than a program", () => {
  const routes = ["GET /a: $0.01", "POST /b: { price: $0.01, description: B }"];
  const lengthOf = ({ lines }: DryAnswer) => lines.reduce((sum, each) => sum + each.length + 2, 0);
  for (const accept of ["base", accepting(NETWORK_NAMES)]) {
    for (const more of ["", "cors: { origins: [https://a.example] }", "paywall: { page: false }"]) {
      for (const quote of routeQuotes(selling({ accept, more, routes }))) {
        const added = lengthOf(quote.toBrowser()) - lengthOf(quote.answer);
        expect(added, `${quote.route.key} ${accept} ${more}`).toBeGreaterThanOrEqual(0);
        expect(added).toBeLessThan(1_024);
      }
    }
  }
});

test("a head that only a browser is sent is warned of, too", () => {
  const description = "d".repeat(2_300);
  const shop = { routes: [`GET /a: { price: $0.01, description: ${description} }`] };
  const [line] = said({ ...shop, more: "paywall: { page: true }" });
  expect(line).toMatch(/large-head: .*lines of the page/);
  const isLarge = said({ ...shop, more: "paywall: { page: false }" }).some((each) => {
    return each.includes("large-head");
  });
  expect(isLarge).toBe(false);
});

test("what is left out of a quote is told, and that all of it is", () => {
  const more = `${ODD_TOKENS}\npaymentIdentifier: optional`;
  const routes = [
    `POST /schema: { ${waysToPay(7)} }`,
    `POST /extensions: { ${waysToPay(10)} }`,
    `POST /words: { description: ${"ж".repeat(1_200)}, ${waysToPay(13)} }`,
    `POST /all: { ${waysToPay(40)} }`,
  ];
  const lines = said({ more, routes }).filter((line) => line.includes("short-quote"));
  expect(lines).toEqual([
    expect.stringContaining(
      "note routes.POST /schema short-quote: PAYMENT-REQUIRED of POST /schema has no room for the schema of bazaar and the schema of payment-identifier;",
    ),
    expect.stringContaining(
      "note routes.POST /extensions short-quote: PAYMENT-REQUIRED of POST /extensions has no room for extension bazaar and extension payment-identifier;",
    ),
    expect.stringContaining(
      "PAYMENT-REQUIRED of POST /words has no room for extension bazaar and extension payment-identifier and the description;",
    ),
    expect.stringContaining(
      "warning routes.POST /all short-quote: PAYMENT-REQUIRED is left out of the 402 of POST /all:",
    ),
  ]);
  expect(said({ more: `${more}\nprotocol: { v2: false }`, routes })).toEqual([]);
});

test("quotes are as long as a running gateway's: with an account and a blockhash on Solana", () => {
  const routes = ["GET /a: $0.01"];
  const quoted = (facilitator: string) => {
    const [quote] = routeQuotes(selling({ accept: "solana", facilitator, routes }));
    return Object(readHeaderJson((quote && quoteHeader(quote.answer)) ?? "")).accepts[0].extra;
  };
  const address = expect.stringMatching(/^[1-9A-HJ-NP-Za-km-z]{44}$/);
  const known = { feePayer: address, paymentFlow: "upfront" };
  expect(quoted("")).toEqual(known);
  expect(quoted('rpc: { solana: ["https://rpc.example.com"] }')).toEqual({
    ...known,
    recentBlockhash: address,
    lastValidBlockHeight: expect.stringMatching(/^\d{9}$/),
  });
});

test("a page that is over its size is warned of, and shows all ways to pay", () => {
  // Amounts and a text that no compression makes shorter.
  const hash = (of: number): Buffer => createHash("sha256").update(`${of}`).digest();
  const many = waysToPay(40, (index) => BigInt(`0x${hash(index).toString("hex")}`));
  const text = NETWORK_NAMES.map((_, index) => hash(index).toString("base64url")).join("");
  const shop = {
    more: ODD_TOKENS,
    routes: [
      `GET /few: { ${waysToPay(13)} }`,
      `GET /many: { description: ${text}, ${many} }`,
      `POST /all: { ${many} }`,
    ],
  };
  const lines = said(shop).filter((line) => line.includes("large-page"));
  expect(lines).toEqual([
    expect.stringMatching(
      /^warning routes\.GET \/many large-page: the page of GET \/many has up to 1\d,\d{3} bytes in gzip, over the 15,000 /,
    ),
  ]);
  const quote = [...routeQuotes(selling(shop))].find(({ route }) => route.key === "GET /many");
  expect(quote?.toBrowser().body.match(/type="radio"/g)).toHaveLength(40);
  const without = said({ ...shop, more: `${ODD_TOKENS}\npaywall: { page: false }` });
  expect(without.some((line) => line.includes("large-page"))).toBe(false);
});
