/** The official clients behind redirects, with wrong input, and cut in the middle of downloads (`npm run prove:goods`). */
import type { RequestListener } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PURSE, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { evmClients } from "../support/evm-clients.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { CutStage, DOWNLOAD_CLIENTS, randomCut } from "../goods/cuts.ts";

/** Of each client, in the suite. */
const CUTS = 4;
const MAX_BYTES = 2 * 1024 ** 2;
const PRICE = 10_000n;

const ROUTES = `
  GET /docs/*: { price: $0.01, description: The goods }
  GET /to-cheap: { price: $0.01, description: Leads to what costs less }
  GET /cheap: { price: $0.005, description: Costs less }
  GET /to-dear: { price: $0.01, description: Leads to what costs more }
  GET /dear: { price: $0.02, description: Costs more }
  GET /to-elsewhere: { price: $0.01, description: Leads to another host }
  GET /followed: { price: $0.01, description: Is followed here, redirects: follow }
  GET /elsewhere: free
  GET /q/city: { price: $0.01, description: Q, input: { queryParams: { city: { type: string, required: true } } } }
  GET /q/days: { price: $0.01, description: Q, input: { queryParams: { days: { type: integer, required: true } } } }
  GET /q/unit: { price: $0.01, description: Q, input: { queryParams: { unit: { enum: [c, f], required: true } } } }
  GET /q/zip: { price: $0.01, description: Q, input: { queryParams: { zip: { type: string, pattern: "^[0-9]{4}$", required: true } } } }
  GET /q/raw: { price: $0.01, description: Q, input: { queryParams: { raw: { type: boolean, required: true } } } }
  GET /q/size: { price: $0.01, description: Q, input: { queryParams: { size: { type: number, minimum: 1, maximum: 9, required: true } } } }
  GET /q/region: { price: $0.01, description: Q, input: { headerFields: { X-Region: { type: string, minLength: 2, required: true } } } }
  GET /cities/:city/now: { price: $0.01, description: Q, input: { pathParams: { city: { type: string, maxLength: 8 } } } }
  POST /b/text: { price: $0.01, description: B, input: { bodyType: json, bodyFields: { text: { type: string, minLength: 3, required: true } } } }
  POST /b/list: { price: $0.01, description: B, input: { bodyType: json, bodyFields: { ids: { type: array, items: { type: integer }, minItems: 1, required: true } } } }
`;

/** Ten requests of each declared route that do not fit: what follows the path, or the body. */
const queries = (name: string, values: readonly string[]): readonly string[] => [
  "",
  `?${name}`,
  `?${name}=`,
  `?${name.toUpperCase()}=1`,
  ...values.map((value) => `?${name}=${value}`),
];
const UNFIT: readonly (readonly [path: string, inputs: readonly string[]])[] = [
  [
    "/q/city",
    [
      ...queries("city", []),
      "?citi=oslo",
      "?city=&x=1",
      "?x=city",
      "?%63ity=",
      "?=city",
      "?a=city%3Doslo",
    ],
  ],
  ["/q/days", queries("days", ["abc", "1.5", "ten", "1,2", "true", "--1"])],
  ["/q/unit", queries("unit", ["C", "k", "cf", "c&unit=x", "%20c", "0"])],
  ["/q/zip", queries("zip", ["123", "12345", "abcd", "12%203", "1234%20", "-123"])],
  ["/q/raw", queries("raw", ["yes", "no", "2", "TRUE", "null", "on"])],
  ["/q/size", queries("size", ["0", "10", "-1", "abc", "9.5", "1e9"])],
  ["/q/region", ["", "?X-Region=eu", "?x=1", "?region=eu", "?a", "?b", "?c", "?d", "?e", "?f"]],
  [
    "/cities/:city/now",
    [
      ":city",
      "%3Acity",
      "*",
      "%2A",
      "%7Bcity%7D",
      "much-too-long",
      "123456789",
      "reykjavik",
      "montevideo",
      "ouagadougou",
    ],
  ],
  [
    "/b/text",
    [
      "",
      "{",
      "[]",
      "{}",
      "null",
      '{"text":""}',
      '{"text":"ab"}',
      '{"text":1}',
      '{"text":null}',
      '{"TEXT":"abc"}',
    ],
  ],
  [
    "/b/list",
    [
      "",
      "]",
      "1",
      "{}",
      '"ids"',
      '{"ids":[]}',
      '{"ids":["a"]}',
      '{"ids":{}}',
      '{"ids":[1.5]}',
      '{"ids":null}',
    ],
  ],
];

const serve: RequestListener = ({ url = "", headers }, response) => {
  const leads: Readonly<Record<string, string>> = {
    "/docs/a": "/docs/a/",
    "/to-cheap": "/cheap",
    "/to-dear": "/dear",
    "/to-elsewhere": `http://localhost:${headers.host?.split(":")[1] ?? ""}/elsewhere`,
    "/followed": "/docs/b",
  };
  const location = leads[url];
  const lines = { "Content-Type": "application/json" };
  if (location === undefined) response.writeHead(200, lines).end(JSON.stringify({ url }));
  else response.writeHead(302, { Location: location }).end();
};

let chain: Chain;
let gateway: RunningGateway;

beforeAll(async () => {
  chain = await startChain();
  gateway = await startGateway({ chain, routes: ROUTES, backend: serve });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await chain.stop();
});

describe.each(Object.entries(evmClients))("%s", (_, { buy }) => {
  it.each([
    ["the same path with a slash", "/docs/a", "/docs/a/"],
    ["another path that costs less", "/to-cheap", "/cheap"],
    ["a path that the gateway follows to", "/followed", "/docs/b"],
  ])("gets the goods behind a redirect to %s, for one charge", async (_name, path, goods) => {
    const buyer = await richBuyer(chain);
    const { status, body, receipt } = await buy(`${gateway.url}${path}`, buyer);
    expect({ status, body }).toEqual({ status: 200, body: { url: goods } });
    expect(receipt).toMatchObject({ success: true });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
  });

  it("is not charged twice behind one to what costs more, which it does not get", async () => {
    const buyer = await richBuyer(chain);
    // Some clients throw, others give the 402.
    await buy(`${gateway.url}/to-dear`, buyer).catch(() => undefined);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
    expect(gateway.upstream.some(({ url }) => url === "/dear")).toBe(false);
  });

  it("gets what another host has behind one, for one charge", async () => {
    const buyer = await richBuyer(chain);
    // Its receipt stays with the redirect, which these clients do not show.
    await buy(`${gateway.url}/to-elsewhere`, buyer).catch(() => undefined);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
    expect(gateway.upstream.at(-1)?.url).toBe("/elsewhere");
  });
});

it("a hundred requests that do not fit what ten routes declare are charged nothing", async () => {
  const buyer = await richBuyer(chain);
  const before = gateway.upstream.length;
  let asked = 0;
  for (const [path, inputs] of UNFIT) {
    expect(inputs, path).toHaveLength(10);
    for (const input of inputs) {
      const isBody = path.startsWith("/b/");
      const target = path.includes(":")
        ? path.replace(":city", input)
        : isBody
          ? path
          : path + input;
      const url = `${gateway.url}${target}`;
      const init = isBody
        ? { method: "POST", body: input, headers: { "Content-Type": "application/json" } }
        : {};
      const header = await sign(buyer, url, { init });
      const headers = { ...Object(init).headers, "X-PAYMENT": header };
      const answer = await fetch(url, { ...init, headers });
      const { error, faults } = Object(await answer.json());
      expect({ target, input, status: answer.status }).toEqual({ target, input, status: 400 });
      expect(error).toContain("no payment was taken for this request");
      expect(faults.length).toBeGreaterThan(0);
      asked += 1;
    }
  }
  expect(asked).toBe(100);
  expect(gateway.upstream.length).toBe(before);
  expect(await chain.balanceOf(buyer.address)).toBe(PURSE);
});

describe("a download that is cut is complete at last, and charged once:", () => {
  it.each(Object.keys(DOWNLOAD_CLIENTS))("by %s", async (client) => {
    await using stage = await CutStage.open(chain);
    for (let seed = 1; seed <= CUTS; seed += 1) {
      const result = await stage.cut(randomCut(client, seed, MAX_BYTES));
      expect(result).toMatchObject({ isComplete: true, charges: 1 });
    }
  });
});
