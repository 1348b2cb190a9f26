/**
 * How a route sells itself: to a program that knows nothing but a host, and through the catalogue of a
 * facilitator elsewhere, which sees what passes through it.
 */
import { exec, spawn } from "node:child_process";
import { promisify } from "node:util";
import { text as readText } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { decodeXPaymentResponse, wrapFetchWithPayment } from "x402-fetch";
import { quote, richBuyer } from "../support/buyer.ts";
import { startCataloguedShop, type CataloguedShop } from "../support/catalogued-shop.ts";

const ROUTES = `
  GET /weather: { price: $0.03, description: Weather, mimeType: application/json }
  GET /cheap: { price: $0.01, description: The cheapest, input: { queryParams: { city: { type: string } } } }
  GET /reports/:id: { price: $0.25, description: A report }
  POST /summary: { price: $0.12, description: A summary, input: { bodyType: json, bodyFields: { text: { type: string, required: true } } } }
  GET /hidden: { price: $0.001, description: Not listed, discoverable: false }
  GET /llms.txt: free
  /app/*: free
`;

const DISCOVERY =
  "{ wellKnown: true, openapi: true, llms: true, page: /catalogue, facilitator: https://pay.example.com }";

const shell = promisify(exec);

let shop: CataloguedShop;
let url: string;

beforeAll(async () => {
  shop = await startCataloguedShop(ROUTES, DISCOVERY);
  ({ url } = shop);
});

afterAll(() => shop[Symbol.asyncDispose]());

async function json(at: string) {
  const response = await fetch(at);
  expect([response.status, response.headers.get("content-type")]).toEqual([
    200,
    "application/json",
  ]);
  return Object(await response.json());
}

describe("a program that knows nothing but a host", () => {
  test("finds the cheapest route from /.well-known/x402, prices it and buys it", async () => {
    const pointers = await json(`${url}/.well-known/x402`);
    expect(pointers).toMatchObject({
      version: 1,
      x402Version: 1,
      facilitator: "https://pay.example.com",
    });
    const { items } = await json(pointers.listing);
    const priced = items
      .filter(({ metadata }: Item) => metadata?.["routeTemplate"] === undefined)
      .map(({ resource, accepts }: Item) => ({
        resource,
        price: BigInt(accepts[0]?.maxAmountRequired ?? 0),
      }))
      .sort((left: Priced, right: Priced) => Number(left.price - right.price));
    const [cheapest] = priced;
    expect(cheapest).toEqual({ resource: `${url}/cheap`, price: 10_000n });

    const buyer = await richBuyer(shop.chain);
    const paidBefore = await shop.chain.balanceOf(shop.facilitator.payee);
    const pay = wrapFetchWithPayment(fetch, buyer.account);
    const response = await pay(cheapest.resource, { method: "GET" });
    const receipt = decodeXPaymentResponse(response.headers.get("X-PAYMENT-RESPONSE") ?? "");
    expect(receipt.success).toBe(true);
    expect(await shop.chain.balanceOf(shop.facilitator.payee)).toBe(paidBefore + cheapest.price);
  });

  test("can make a URL of a template, and ask for its price as it stands", async () => {
    const pointers = await json(`${url}/.well-known/x402`);
    expect(pointers.resources).toEqual([
      `${url}/cheap`,
      `${url}/reports/:id`,
      `${url}/summary`,
      `${url}/weather`,
    ]);
    const { items } = await json(`${pointers.listing}?q=report`);
    const [{ metadata, resource }] = items;
    expect(metadata.uriTemplate).toBe(`${url}/reports/{id}`);
    for (const concrete of [resource, metadata.uriTemplate.replace("{id}", "a17")]) {
      expect((await quote(concrete)).maxAmountRequired).toBe("250000");
    }
  });

  test("finds the same prices in /openapi.json", async () => {
    const pointers = await json(`${url}/.well-known/x402`);
    const document = await json(pointers.openapi);
    const prices = Object.entries(document.paths).map(([path, item]) => {
      const [operation] = Object.values<Record<string, unknown>>(Object(item));
      return [path, Object(operation?.["x-payment-info"]).price.amount];
    });
    expect(prices).toEqual([
      ["/weather", "0.03"],
      ["/cheap", "0.01"],
      ["/reports/{id}", "0.25"],
      ["/summary", "0.12"],
    ]);
  });
});

interface Item {
  readonly resource: string;
  readonly accepts: readonly { readonly maxAmountRequired: string }[];
  readonly metadata?: Record<string, unknown>;
}

interface Priced {
  readonly resource: string;
  readonly price: bigint;
}

describe("a person who copies what the catalogue page shows", () => {
  const copied = async (word: string): Promise<readonly string[]> => {
    const page = await (await fetch(`${url}/catalogue?q=${word}`)).text();
    return [...page.matchAll(/<div class="command">[\s\S]*?<pre><code>([\s\S]*?)<\/code>/g)].map(
      ([, code = ""]) => {
        const read = code
          .replaceAll("&#39;", "'")
          .replaceAll("&quot;", '"')
          .replaceAll("&#96;", "`");
        return read.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
      },
    );
  };

  test.each([
    ["weather", 30_000n],
    ["summary", 120_000n],
  ] as const)(
    "sees the price of the %s in a shell, and buys it for that in a program",
    async (word, price) => {
      const [command = "", program = ""] = await copied(word);
      const { stdout: told } = await shell(`${command} -s -m 10`);
      expect(told).toMatch(/^HTTP\/1\.1 402 /);
      expect(told).toContain(`"maxAmountRequired":"${price}"`);
      const buyer = await richBuyer(shop.chain);
      const before = await shop.chain.balanceOf(shop.facilitator.payee);
      // As somebody has it in a file: the program is run as it was copied.
      const node = spawn(process.execPath, ["--input-type=module"], {
        env: { ...process.env, KEY: buyer.privateKey },
        stdio: ["pipe", "pipe", "inherit"],
      });
      node.stdin.end(program);
      const printed = await readText(node.stdout);
      expect(printed).toBe("what was paid for\n");
      expect((await shop.chain.balanceOf(shop.facilitator.payee)) - before).toBe(price);
    },
  );
});

describe("the gateway's documents", () => {
  const PATHS = ["/.well-known/x402", "/openapi.json", "/discovery/resources"];

  test.each(PATHS)("%s is given again only if it has changed", async (path) => {
    const asked = (more: Readonly<Record<string, string>>, method = "GET") =>
      fetch(url + path, { method, headers: { "accept-encoding": "identity", ...more } });
    const first = await asked({});
    const etag = first.headers.get("etag") ?? "";
    expect(etag).toMatch(/^"[\w-]{24}"$/);
    expect(first.headers.get("cache-control")).toBe("no-cache");
    const bytes = (await first.arrayBuffer()).byteLength;
    for (const named of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
      const again = await asked({ "If-None-Match": named });
      expect([again.status, again.headers.get("etag"), await again.text()]).toEqual([
        304,
        etag,
        "",
      ]);
    }
    const other = await asked({ "If-None-Match": '"other"' });
    expect(other.status).toBe(200);
    await other.arrayBuffer();
    const head = await asked({}, "HEAD");
    expect([head.status, head.headers.get("etag"), await head.text()]).toEqual([200, etag, ""]);
    expect(head.headers.get("content-length")).toBe(String(bytes));
  });

  test.each([...PATHS.slice(1), "/discovery/resources?limit=3", "/catalogue"])(
    "%s is compressed for who can read that, with a tag of its own",
    async (path) => {
      const at = (encoding: string, more = {}, method = "GET") =>
        fetch(url + path, { method, headers: { "accept-encoding": encoding, ...more } });
      const plain = await at("identity");
      const text = await plain.text();
      const tags = [plain.headers.get("etag")];
      for (const [asked, encoding] of [
        ["gzip, deflate, br", "br"],
        ["br;q=0, *", "gzip"],
        ["gzip;q=0.5", "gzip"],
      ] as const) {
        const packed = await at(asked);
        expect(await packed.text()).toBe(text);
        const { headers } = packed;
        expect([headers.get("content-encoding"), headers.get("vary")]).toEqual([
          encoding,
          "Accept-Encoding",
        ]);
        const length = Number(headers.get("content-length"));
        expect(length).toBeLessThan(Buffer.byteLength(text) / 2);
        const etag = headers.get("etag") ?? "";
        tags.push(etag);
        const head = await at(asked, {}, "HEAD");
        expect([head.headers.get("etag"), head.headers.get("content-length")]).toEqual([
          etag,
          String(length),
        ]);
        const kept = await at(asked, { "if-none-match": etag });
        expect([kept.status, kept.headers.get("etag"), kept.headers.get("vary")]).toEqual([
          304,
          etag,
          "Accept-Encoding",
        ]);
        // Those bytes are nothing that others could read.
        const other = await at("identity", { "if-none-match": etag });
        expect([other.status, await other.text()]).toEqual([200, text]);
      }
      expect(new Set(tags).size).toBe(3);
      for (const none of ["identity", "zstd", "gzip;q=0, br;q=0.0", "x".repeat(600)]) {
        const { headers } = await at(none, {}, "HEAD");
        expect(headers.get("content-encoding")).toBeNull();
      }
    },
  );

  test("of less than 1 kB are sent as they are", async () => {
    const small = await fetch(`${url}/.well-known/x402`, { headers: { "accept-encoding": "br" } });
    expect(Number(small.headers.get("content-length"))).toBeLessThan(1_024);
    expect([small.headers.get("content-encoding"), small.headers.get("vary")]).toEqual([
      null,
      "Accept-Encoding",
    ]);
    await small.text();
  });

  test.each(PATHS)("%s takes no other method than GET and HEAD", async (path) => {
    for (const method of ["POST", "PUT", "DELETE", "OPTIONS"]) {
      const response = await fetch(url + path, { method });
      expect([response.status, response.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
      await response.text();
    }
  });

  test("are what they are whatever query is asked with, but for the listing", async () => {
    for (const path of PATHS.slice(0, 2)) {
      const plain = await fetch(url + path);
      const asked = await fetch(`${url}${path}?limit=1&limit=2&__proto__[x]=%ff`);
      expect(await asked.text()).toBe(await plain.text());
    }
    const refused = await fetch(`${url}/discovery/resources?limit=1&limit=2`);
    expect([refused.status, refused.headers.get("etag")]).toEqual([400, null]);
  });

  test("stand back behind a route of that very path", async () => {
    // The backend has no such page.
    expect((await fetch(`${url}/llms.txt`)).status).toBe(404);
    const { llms } = await json(`${url}/.well-known/x402`);
    expect(llms).toBeUndefined();
  });

  test("follow the configuration, with lastUpdated of what has changed and of nothing else", async () => {
    const before = await json(`${url}/discovery/resources`);
    const tag = (await fetch(`${url}/openapi.json`)).headers.get("etag") ?? "";
    const realNow = Date.now;
    const later = Math.floor(realNow() / 1000) + 100;
    try {
      Date.now = () => later * 1000;
      const changed = ROUTES.replace("$0.03", "$0.04");
      await shop.reroute(changed.replace("  GET /llms.txt: free\n", ""));
    } finally {
      Date.now = realNow;
    }
    const after = await json(`${url}/discovery/resources`);
    expect(after.items.map(({ lastUpdated }: { lastUpdated: number }) => lastUpdated)).toEqual([
      before.items[0].lastUpdated,
      before.items[1].lastUpdated,
      before.items[2].lastUpdated,
      later,
    ]);
    expect(after.items[3].accepts[0].maxAmountRequired).toBe("40000");
    const changed = await fetch(`${url}/openapi.json`, { headers: { "If-None-Match": tag } });
    expect(changed.status).toBe(200);
    await changed.text();
    const llms = await fetch(`${url}/llms.txt`);
    expect(llms.headers.get("content-type")).toBe("text/plain; charset=utf-8");
    expect(await llms.text()).toContain("Price: 0.04 USDC on base-sepolia.");
    await shop.reroute(ROUTES);
  });
});

describe("a facilitator that catalogues what passes through it", () => {
  test("gets the requirement that the buyer was quoted, without his query and with how to ask for the resource", async () => {
    const buyer = await richBuyer(shop.chain);
    const quoted = await quote(`${url}/cheap?city=Oslo`);
    const count = shop.catalogue.passed.length;
    const pay = wrapFetchWithPayment(fetch, buyer.account);
    await (await pay(`${url}/cheap?city=Oslo`, { method: "GET" })).text();
    const passed = shop.catalogue.passed.slice(count);
    expect(passed.map(({ path }) => path)).toEqual(["/verify", "/settle"]);
    for (const { paymentRequirements } of passed) {
      // What a buyer writes into a query is nobody's but the backend's.
      expect(paymentRequirements).toEqual({ ...quoted, resource: `${url}/cheap` });
      expect(paymentRequirements.outputSchema).toEqual({
        input: {
          type: "http",
          method: "GET",
          discoverable: true,
          queryParams: { city: { type: "string" } },
        },
      });
    }
  });
});
