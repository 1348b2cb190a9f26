import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { clientCode, priceCommand, shellWord } from "../../../src/web/catalogue-command.ts";
import { cataloguePage } from "../../../src/web/catalogue-page.ts";
import type { CatalogueRoute, CatalogueView } from "../../../src/web/catalogue-view.ts";

const HOSTILE = `</pre></script><script>alert(1)</script><img src=x onerror="alert(1)">'"&$(id)\`id\``;

const route = {
  methods: ["GET"],
  shown: "/weather?city=Oslo",
  url: "https://shop.example.com/weather?city=Oslo",
  href: "/weather?city=Oslo",
  missing: [],
  description: "Current weather",
  mimeType: "application/json",
  prices: [
    {
      family: "evm",
      dollars: "$0.01",
      amount: "0.01 USDC",
      amountAtomic: "10000",
      network: "Base",
      asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
      isUsual: true,
    },
  ],
  inputs: [],
  bodyType: null,
  sample: null,
  quality: "",
} satisfies CatalogueRoute;
const view: CatalogueView = {
  shop: "shop.example.com",
  query: "",
  found: 1,
  page: 1,
  pages: 1,
  version: 1,
  groups: [{ name: null, routes: [route] }],
};

describe("the catalogue page", () => {
  test("shows how else a route is had, as text", () => {
    const ways = ["100 requests of an address are free each day (UTC)", HOSTILE];
    const page = cataloguePage({ ...view, groups: [{ name: null, routes: [{ ...route, ways }] }] });
    expect(page).toContain("<p>Or: 100 requests of an address are free each day (UTC).</p>");
    expect(page).not.toContain("<script>alert");
  });

  test("shows what it costs, for people and exactly, and how to buy it", () => {
    const page = cataloguePage(view);
    for (const text of [
      "$0.01",
      "0.01 USDC",
      "10000 units of 0x8335",
      "Current weather",
      "1 resource",
    ]) {
      expect(page).toContain(text);
    }
    expect(page).toContain("curl -i &#39;https://shop.example.com/weather?city=Oslo&#39;");
    expect(page).toContain('<a href="/weather?city=Oslo"><code>/weather?city=Oslo</code></a>');
    expect(page).not.toContain("Or: ");
    // Whoever follows that name into a registry gives his key to whoever has it there.
    expect(page).not.toContain("coinslot");
  });

  test("leads nowhere, and gives nothing to copy, where a value is missing", () => {
    const open = { ...route, shown: "/reports/{id}", url: null, href: null, missing: ["id"] };
    const page = cataloguePage({ ...view, groups: [{ name: null, routes: [open] }] });
    expect(page).toContain("Put a value in place of <code>{id}</code>.");
    expect(page.slice(page.indexOf("<body>"))).not.toMatch(/<a |class="command"/);
  });

  test("is not broken out of by any text of the configuration, nor by what is searched for", () => {
    const input = {
      name: HOSTILE,
      type: HOSTILE,
      isRequired: true,
      description: HOSTILE,
      example: HOSTILE,
    };
    const hostile: CatalogueRoute = {
      methods: [HOSTILE],
      shown: HOSTILE,
      url: HOSTILE,
      href: HOSTILE,
      missing: [HOSTILE],
      description: HOSTILE,
      mimeType: HOSTILE,
      prices: route.prices.map((price) => ({ ...price, dollars: HOSTILE, network: HOSTILE })),
      inputs: (["path", "query", "body", "header"] as const).map((place) => ({ ...input, place })),
      bodyType: HOSTILE,
      sample: HOSTILE,
      quality: HOSTILE,
    };
    const page = cataloguePage({
      ...view,
      shop: HOSTILE,
      query: HOSTILE,
      pages: 3,
      groups: [{ name: HOSTILE, routes: [hostile] }],
    });
    const body = page
      .slice(page.indexOf("<body>"))
      .replace(/<script>(?!alert)[\s\S]*?<\/script>/, "");
    expect(body.match(/<(?:script|img|iframe|svg|style)\b|\son\w+="|javascript:/gi)).toBeNull();
    expect(page.slice(0, page.indexOf("<style>"))).not.toContain("<img");
  });

  test("leads to the pages before and after, with what is searched for", () => {
    const page = cataloguePage({ ...view, query: "a&b", page: 2, pages: 3 });
    expect(page).toContain('<a href="?q=a%26b">Previous</a>');
    expect(page).toContain('<a href="?q=a%26b&amp;page=3">Next</a>');
    expect(page).toContain("Page 2 of 3");
  });
});

describe("what can be copied", () => {
  test.each([HOSTILE, "a'b", "'", "", "$HOME `id` $(id) \\ !! \n x"])(
    "%j is one word to a shell",
    (text) => {
      const word = shellWord(text);
      const read = execFileSync("sh", ["-c", `printf %s ${word}`], { encoding: "utf8" });
      expect(read).toBe(text.replace("\n", " "));
    },
  );

  test("has a method, a body and headers where they are wanted, and the price that may be paid", () => {
    const wanted = {
      ...route,
      methods: ["POST"],
      bodyType: "json",
      prices: route.prices.map((price) => ({ ...price, amountAtomic: "250000" })),
      inputs: [
        { place: "body", name: "text", type: "string", isRequired: true, description: "" },
        {
          place: "body",
          name: "days",
          type: "integer",
          isRequired: true,
          description: "",
          example: 3,
        },
        { place: "body", name: "tone", type: "string", isRequired: false, description: "" },
        {
          place: "header",
          name: "X-Team",
          type: "string",
          isRequired: true,
          description: "",
          example: "a",
        },
      ],
    } satisfies CatalogueRoute;
    expect(priceCommand(wanted)).toBe(
      `curl -i -X POST -d '{"text":"…","days":3}' -H 'Content-Type: application/json' -H 'X-Team: a' 'https://shop.example.com/weather?city=Oslo'`,
    );
    expect(clientCode(wanted, 1)).toContain(
      `pay("https://shop.example.com/weather?city=Oslo", { method: "POST", headers: { "Content-Type": "application/json", "X-Team": "a" }, body: "{\\"text\\":\\"…\\",\\"days\\":3}" })`,
    );
    expect(clientCode(wanted, 1)).toContain("wrapFetchWithPayment(fetch, account, 250000n)");
    expect(clientCode(wanted, 2)).toContain("BigInt(amount) <= 250000n");
  });

  test("allows no more than it costs in what everybody takes for dollars", () => {
    const asset = "0xC891EB4cbdEFf6e073e859e987815Ed1505c2ACD";
    const euro = route.prices.map((price) => {
      return { ...price, dollars: null, amountAtomic: "9300", asset, isUsual: false };
    });
    expect(clientCode({ ...route, prices: euro }, 1)).toContain("account, 9300n)");
    const dear = euro.map((price) => ({ ...price, amountAtomic: "9300000000000000" }));
    const both = { ...route, prices: [...dear, ...route.prices] };
    expect(clientCode(both, 1)).toContain("wrapFetchWithPayment(fetch, account, 10000n)");
  });

  test("says once what the body is, and nothing of the payment", () => {
    const input = { place: "header", type: "string", isRequired: true, description: "" } as const;
    const wanted = {
      ...route,
      methods: ["PUT"],
      bodyType: "form-data",
      inputs: [
        { ...input, name: "content-type" },
        { ...input, name: "x-payment" },
        { ...input, name: "Payment-Signature" },
        { ...input, place: "body", name: "a b", example: "c&d" },
      ],
    } satisfies CatalogueRoute;
    const type = "-H 'Content-Type: application/x-www-form-urlencoded'";
    expect(priceCommand(wanted)).toBe(`curl -i -X PUT -d 'a+b=c%26d' ${type} '${route.url}'`);
    expect(priceCommand({ ...wanted, bodyType: "text", inputs: [] })).toContain(
      "-d '…' -H 'Content-Type: text/plain'",
    );
  });

  test("signs for Solana where nothing else is taken", () => {
    const prices = route.prices.map((price) => ({ ...price, family: "solana" as const }));
    expect(clientCode({ ...route, prices }, 1)).toContain(
      'createSigner("solana", process.env.KEY)',
    );
    expect(clientCode({ ...route, prices }, 2)).toContain('register("solana:*", scheme)');
  });
});
