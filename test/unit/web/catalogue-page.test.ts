import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { clientCode, payCommand, shellWord } from "../../../src/web/catalogue-command.ts";
import { cataloguePage } from "../../../src/web/catalogue-page.ts";
import type { CatalogueRoute, CatalogueView } from "../../../src/web/catalogue-view.ts";

const HOSTILE = `</pre></script><script>alert(1)</script><img src=x onerror="alert(1)">'"&$(id)\`id\``;

const route: CatalogueRoute = {
  methods: ["GET"],
  pattern: "/weather",
  url: "https://shop.example.com/weather",
  parameters: [],
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
};
const view: CatalogueView = {
  shop: "shop.example.com",
  query: "",
  found: 1,
  page: 1,
  pages: 1,
  routes: [route],
};

describe("the catalogue page", () => {
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
    expect(page).toContain("coinslot pay &#39;https://shop.example.com/weather&#39;");
  });

  test("is not broken out of by any text of the configuration, nor by what is searched for", () => {
    const input = { name: HOSTILE, type: HOSTILE, isRequired: true, description: HOSTILE };
    const hostile: CatalogueRoute = {
      methods: [HOSTILE],
      pattern: HOSTILE,
      url: HOSTILE,
      parameters: [HOSTILE],
      description: HOSTILE,
      mimeType: HOSTILE,
      prices: route.prices.map((price) => ({ ...price, dollars: HOSTILE, network: HOSTILE })),
      inputs: (["path", "query", "body", "header"] as const).map((place) => ({ ...input, place })),
      bodyType: HOSTILE,
    };
    const page = cataloguePage({
      ...view,
      shop: HOSTILE,
      query: HOSTILE,
      pages: 3,
      routes: [hostile],
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

  test("has a method, a body and headers where they are wanted, and the price where it is high", () => {
    const wanted: CatalogueRoute = {
      ...route,
      methods: ["POST"],
      bodyType: "json",
      prices: route.prices.map((price) => ({ ...price, amountAtomic: "250000" })),
      inputs: [
        { place: "body", name: "text", type: "string", isRequired: true, description: "" },
        { place: "body", name: "tone", type: "string", isRequired: false, description: "" },
        { place: "query", name: "q", type: "string", isRequired: true, description: "" },
        { place: "header", name: "X-Team", type: "string", isRequired: true, description: "" },
      ],
    };
    expect(payCommand(wanted)).toBe(
      `coinslot pay -X POST -d '{"text":"…"}' -H 'Content-Type: application/json' -H 'X-Team: …' --max 250000units 'https://shop.example.com/weather?q=…'`,
    );
    expect(clientCode(wanted)).toContain(
      `pay("https://shop.example.com/weather?q=…", { method: "POST", headers: { "Content-Type": "application/json", "X-Team": "…" }, body: "{\\"text\\":\\"…\\"}" })`,
    );
    expect(clientCode(wanted)).toContain("wrapFetchWithPayment(fetch, account, 250000n)");
  });

  test("allows the token that nothing else is taken than, and no more of it than it costs", () => {
    const asset = "0xC891EB4cbdEFf6e073e859e987815Ed1505c2ACD";
    const euro = route.prices.map((price) => {
      return { ...price, dollars: null, amountAtomic: "9300", asset, isUsual: false };
    });
    expect(payCommand({ ...route, prices: euro })).toBe(
      `coinslot pay --allow-asset '${asset}' --max 9300units 'https://shop.example.com/weather'`,
    );
    const dear = euro.map((price) => ({ ...price, amountAtomic: "9300000000000000" }));
    const both = { ...route, prices: [...dear, ...route.prices] };
    expect(payCommand(both)).toBe("coinslot pay 'https://shop.example.com/weather'");
    expect(clientCode(both)).toContain("wrapFetchWithPayment(fetch, account, 10000n)");
  });

  test("says once what the body is, and nothing of the payment", () => {
    const input = { place: "header", type: "string", isRequired: true, description: "" } as const;
    const wanted: CatalogueRoute = {
      ...route,
      methods: ["PUT"],
      bodyType: "form-data",
      inputs: [
        { ...input, name: "content-type" },
        { ...input, name: "x-payment" },
        { ...input, place: "body", name: "a b" },
        { ...input, place: "body", name: "c" },
      ],
    };
    expect(payCommand(wanted)).toBe(
      `coinslot pay -X PUT -d 'a%20b=…&c=…' -H 'Content-Type: application/x-www-form-urlencoded' 'https://shop.example.com/weather'`,
    );
    expect(payCommand({ ...wanted, bodyType: "text", inputs: [] })).toContain(
      "-d '…' -H 'Content-Type: text/plain'",
    );
  });

  test("signs for Solana where nothing else is taken", () => {
    const prices = route.prices.map((price) => ({ ...price, family: "solana" as const }));
    expect(clientCode({ ...route, prices })).toContain('createSigner("solana", process.env.KEY)');
  });
});
