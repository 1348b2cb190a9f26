import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { HTTPRequestStructureSchema, ListDiscoveryResourcesResponseSchema } from "x402/types";
import {
  createCatalogue,
  listResources,
  outputSchemaOf,
  parseDiscoveryQuery,
  writePage,
  type Catalogue,
  type DiscoveryQuery,
} from "../../../src/discovery/discovery.ts";
import type { DiscoveryResponse } from "../../../src/x402/x402.ts";
import { entry, offer, ORIGIN } from "./example-entry.ts";

function query(text: string): DiscoveryQuery {
  const result = parseDiscoveryQuery(text);
  if (!result.ok) throw new Error(result.error.detail);
  return result.value;
}

function list(catalogue: Catalogue, text = ""): DiscoveryResponse {
  return listResources(catalogue, query(text));
}

function paths(response: DiscoveryResponse): readonly string[] {
  return response.items.map(({ resource }) => resource.slice(ORIGIN.length));
}

describe("the discovery listing", () => {
  it("shows a resource with the fields of section 2.6 and nothing else", () => {
    const weather = entry("/weather", { metadata: { category: "weather" } });
    expect(list(createCatalogue([weather]))).toEqual({
      x402Version: 1,
      items: [
        {
          resource: `${ORIGIN}/weather`,
          type: "http",
          x402Version: 1,
          accepts: weather.accepts,
          lastUpdated: 1_703_123_456,
          metadata: { category: "weather" },
        },
      ],
      pagination: { limit: 20, offset: 0, total: 1 },
    });
  });

  it("says which methods are sold where the ways to pay cannot", () => {
    const { items } = list(
      createCatalogue([
        entry("/any", { methods: null }),
        entry("/both", { methods: ["GET", "POST"], metadata: { category: "weather" } }),
        entry("/one", { methods: ["POST"] }),
      ]),
    );
    expect(items.map(({ metadata }) => metadata)).toEqual([
      { methods: ["*"] },
      { category: "weather", methods: ["GET", "POST"] },
      undefined,
    ]);
  });

  it("is read by the official version 1 client's schema", () => {
    const catalogue = createCatalogue([
      entry("/weather"),
      entry("/reports/:id", { isTemplate: true, metadata: { provider: "Example Inc." } }),
    ]);
    const listing = list(catalogue);
    // That schema wants a Date, which no JSON can carry; the protocol's number is what clients get.
    const items = listing.items.map((item) => ({ ...item, lastUpdated: new Date(0) }));
    const parsed = ListDiscoveryResourcesResponseSchema.safeParse({ ...listing, items });
    expect(parsed.error).toBeUndefined();
  });

  it("omits metadata where a route has none", () => {
    const [item] = list(createCatalogue([entry("/weather")])).items;
    expect(item).not.toHaveProperty("metadata");
  });

  it("shows a pattern route as one resource with its template", () => {
    const catalogue = createCatalogue([
      entry("/reports/:id", { isTemplate: true, metadata: { routeTemplate: "mine", a: 1 } }),
      entry("/files/*", { isTemplate: true }),
    ]);
    const { items } = list(catalogue);
    expect(items.map(({ metadata }) => metadata)).toEqual([
      {
        routeTemplate: "/files/*",
        uriTemplate: `${ORIGIN}/files/{+rest}`,
        pathParams: {
          rest: { type: "string", description: "The rest of the path, slashes included." },
        },
      },
      {
        routeTemplate: "/reports/:id",
        uriTemplate: `${ORIGIN}/reports/{id}`,
        pathParams: { id: { type: "string", required: true } },
        a: 1,
      },
    ]);
  });

  it("says of a template's parameters what the configuration says, and of the others what they are", () => {
    const pathParams = { id: { type: "integer", example: 7 }, absent: { type: "string" } };
    const catalogue = createCatalogue([
      entry("/a/:id/b/:rest/*", { isTemplate: true, pathParams }),
      entry("/:__proto__", { isTemplate: true }),
    ]);
    const [plain, described] = list(catalogue).items.map(({ metadata }) => metadata);
    expect(described).toMatchObject({
      uriTemplate: `${ORIGIN}/a/{id}/b/{rest}/{+rest2}`,
      pathParams: { id: { type: "integer", example: 7 }, rest: { required: true }, rest2: {} },
    });
    expect(JSON.stringify(plain)).toContain('{"__proto__":{"type":"string","required":true}}');
  });

  it("is empty, not an error, without resources or beyond the last of them", () => {
    expect(list(createCatalogue([])).pagination).toEqual({ limit: 20, offset: 0, total: 0 });
    const beyond = list(createCatalogue([entry("/a")]), "offset=9007199254740991&limit=100");
    expect(beyond.items).toEqual([]);
    expect(beyond.pagination).toEqual({ limit: 100, offset: 9_007_199_254_740_991, total: 1 });
  });

  it("has one order, whatever the order of the routes", () => {
    const routes = [
      entry("/b"),
      entry("/a", { methods: ["POST"] }),
      entry("/a", { methods: ["GET"] }),
      entry("/a", { methods: null }),
      entry("/B"),
      entry("/ä"),
    ];
    const expected = JSON.stringify(list(createCatalogue(routes)));
    expect(paths(list(createCatalogue(routes)))).toEqual(["/B", "/a", "/a", "/a", "/b", "/ä"]);
    for (let turn = 0; turn < routes.length; turn += 1) {
      const turned = [...routes.slice(turn), ...routes.slice(0, turn)];
      expect(JSON.stringify(list(createCatalogue(turned)))).toBe(expected);
    }
  });

  it("leaves the entries as they were given", () => {
    const routes = Object.freeze([entry("/b"), entry("/a")]);
    createCatalogue(routes);
    expect(routes.map(({ resource }) => resource)).toEqual([`${ORIGIN}/b`, `${ORIGIN}/a`]);
  });

  describe("filters", () => {
    const catalogue = createCatalogue([
      entry("/1", { metadata: { provider: "Example Inc.", category: "weather", level: 3 } }),
      entry("/2", { metadata: { provider: "EXAMPLE INC.", category: "news", open: true } }),
      entry("/3", { metadata: { provider: "Other", tags: ["weather"], nested: { a: 1 } } }),
      entry("/4/:id", { isTemplate: true }),
    ]);

    it("by type, matched exactly", () => {
      expect(list(catalogue, "type=http").pagination.total).toBe(4);
      expect(list(catalogue, "type=HTTP").pagination.total).toBe(0);
      expect(list(catalogue, "type=mcp").items).toEqual([]);
    });

    it("by a metadata value without regard to its letter case", () => {
      expect(paths(list(catalogue, "metadata[provider]=example+inc."))).toEqual(["/1", "/2"]);
      expect(paths(list(catalogue, "metadata[provider]=OTHER"))).toEqual(["/3"]);
    });

    it("by a metadata name with regard to its letter case", () => {
      expect(list(catalogue, "metadata[Provider]=Other").items).toEqual([]);
    });

    it("by whole values, not by parts of them", () => {
      expect(list(catalogue, "metadata[provider]=Example").items).toEqual([]);
    });

    it("by numbers and booleans as they are written", () => {
      expect(paths(list(catalogue, "metadata[level]=3"))).toEqual(["/1"]);
      expect(paths(list(catalogue, "metadata[open]=TRUE"))).toEqual(["/2"]);
    });

    it("by the route template", () => {
      expect(paths(list(catalogue, "metadata[routeTemplate]=/4/:id"))).toEqual(["/4/:id"]);
    });

    it("so that all of several have to hold", () => {
      const both = "metadata[provider]=example+inc.&metadata[category]=news";
      expect(paths(list(catalogue, both))).toEqual(["/2"]);
      expect(list(catalogue, "metadata[category]=news&metadata[category]=weather").items).toEqual(
        [],
      );
    });

    it("by no list, object or inherited member", () => {
      for (const filter of [
        "metadata[tags]=weather",
        "metadata[nested]=[object Object]",
        "metadata[hasOwnProperty]=x",
        "metadata[toString]=x",
      ]) {
        expect(list(catalogue, filter).items).toEqual([]);
      }
    });

    it("and counts what they let through as the total", () => {
      const page = list(catalogue, "metadata[provider]=example+inc.&limit=1&offset=1");
      expect(paths(page)).toEqual(["/2"]);
      expect(page.pagination).toEqual({ limit: 1, offset: 1, total: 2 });
    });
  });

  describe("filters beyond the protocol's own", () => {
    const EURC = "0xC891EB4cbdEFf6e073e859e987815Ed1505c2ACD";
    const SOLANA_PAYEE = "2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4";
    const catalogue = createCatalogue([
      entry("/cheap", {
        accepts: [
          offer("/cheap", { maxAmountRequired: "1000", description: "Tide tables of Øresund" }),
          offer("/cheap", { network: "avalanche", asset: EURC, maxAmountRequired: "5" }),
        ],
        metadata: { category: "Sea Weather", tags: ["hidden"] },
      }),
      entry("/dear/:id", {
        accepts: [offer("/dear", { maxAmountRequired: "2000000", payTo: SOLANA_PAYEE })],
        isTemplate: true,
      }),
      entry("/weather"),
    ]);
    const found = (text: string) => paths(list(catalogue, text));

    it("by the network, exactly", () => {
      expect(found("network=avalanche")).toEqual(["/cheap"]);
      expect(found("network=Avalanche")).toEqual([]);
    });

    it("by asset and payee: with 0x in any letter case, else as written", () => {
      expect(found(`asset=${EURC.toLowerCase()}`)).toEqual(["/cheap"]);
      expect(found(`payTo=${SOLANA_PAYEE}`)).toEqual(["/dear/:id"]);
      expect(found(`payTo=${SOLANA_PAYEE.toLowerCase()}`)).toEqual([]);
    });

    it("by the most that it may cost, in dollars or atomic units, the limit included", () => {
      expect(found("maxPrice=$0.001")).toEqual(["/cheap"]);
      expect(found("maxPrice=$0.0009999")).toEqual([]);
      expect(found("maxPrice=2usd")).toEqual(["/cheap", "/dear/:id", "/weather"]);
      expect(found("maxPrice=10000units")).toEqual(["/cheap", "/weather"]);
    });

    it("takes a token that is no dollar for no dollars", () => {
      expect(found("network=avalanche&maxPrice=$9")).toEqual([]);
      expect(found("network=avalanche&maxPrice=5units")).toEqual(["/cheap"]);
    });

    it("so that one way to pay fulfils all of them", () => {
      expect(found(`network=base-sepolia&asset=${EURC}`)).toEqual([]);
      expect(found(`network=avalanche&asset=${EURC}`)).toEqual(["/cheap"]);
    });

    it("by the beginnings of words in path, description and metadata", () => {
      expect(found("q=weath")).toEqual(["/cheap", "/dear/:id", "/weather"]);
      expect(found("q=SEA+%C3%B8re")).toEqual(["/cheap"]);
      expect(found("q=eather")).toEqual([]);
      expect(found("q=hidden")).toEqual([]);
      expect(found("q=weather+nothing")).toEqual([]);
      // Both begin more than one of its words, which makes it no second entry.
      expect(found("q=t+ta")).toEqual(["/cheap"]);
    });
  });

  describe("orders", () => {
    const priced = (path: string, amount: string, lastUpdated: number) =>
      entry(path, { accepts: [offer(path, { maxAmountRequired: amount })], lastUpdated });
    const catalogue = createCatalogue([
      priced("/a", "9000", 30),
      priced("/b", "10000", 10),
      entry("/c", {
        accepts: [
          offer("/c", { maxAmountRequired: "20000" }),
          offer("/c", { network: "avalanche-fuji", maxAmountRequired: "1", asset: "0x1" }),
        ],
        lastUpdated: 20,
      }),
      priced("/d", "9000", 40),
      entry("/e", {
        accepts: [offer("/e", { asset: "0x2", maxAmountRequired: "1" })],
        lastUpdated: 5,
      }),
    ]);
    const found = (text: string) => paths(list(catalogue, text));

    it("by price in dollars, the order of the listing where it is the same, what has none last", () => {
      expect(found("sort=price")).toEqual(["/a", "/d", "/b", "/c", "/e"]);
      expect(found("sort=price_desc")).toEqual(["/c", "/b", "/a", "/d", "/e"]);
      expect(found("sort=price&limit=2&offset=1")).toEqual(["/d", "/b"]);
      // Of what was asked for, not of what is cheaper elsewhere.
      expect(found("sort=price&network=base-sepolia&maxUsdPrice=0.05")).toEqual([
        "/a",
        "/d",
        "/b",
        "/c",
      ]);
    });

    it("by the time of the last change, and from then on", () => {
      expect(found("sort=updated")).toEqual(["/d", "/a", "/c", "/b", "/e"]);
      expect(found("sort=updated_asc&updatedSince=20")).toEqual(["/c", "/a", "/d"]);
      expect(list(catalogue, "updatedSince=41").pagination.total).toBe(0);
    });
  });

  it("shows every resource exactly once over its pages, whatever the page size", () => {
    const metadata = fc.record({ category: fc.constantFrom("a", "A", "b") });
    const entries = fc.array(fc.tuple(fc.webPath(), metadata), { maxLength: 60 });
    const filter = fc.constantFrom("", "&metadata[category]=a", "&metadata[category]=c");
    fc.assert(
      fc.property(entries, fc.integer({ min: 1, max: 100 }), filter, (routes, limit, filters) => {
        const catalogue = createCatalogue(
          routes.map(([path, meta], index) =>
            entry(path, { metadata: { ...meta, index: `${index}` } }),
          ),
        );
        const seen: string[] = [];
        let total: number;
        let offset = 0;
        do {
          const page = list(catalogue, `limit=${limit}&offset=${offset}${filters}`);
          ({ total } = page.pagination);
          expect(page.items.length).toBeLessThanOrEqual(limit);
          seen.push(...page.items.map((item) => String(item.metadata?.index)));
          offset += limit;
        } while (offset < total);
        const wanted = routes
          .map(([, { category }], index) => ({ category, index: `${index}` }))
          .filter(({ category }) => {
            const [, value] = filters.split("=");
            return value === undefined || category.toLowerCase() === value;
          })
          .map(({ index }) => index);
        expect(seen.sort()).toEqual(wanted.sort());
        expect(total).toBe(wanted.length);
      }),
      { numRuns: 200 },
    );
  });

  it("is written as the JSON of its response, byte for byte", () => {
    const catalogue = createCatalogue(
      ["/a", "/b/:id", "/ü", '/"quoted"'].map((path) => entry(path, { isTemplate: true })),
    );
    for (const text of ["", "limit=2&offset=1", "metadata[routeTemplate]=/a", "offset=9"]) {
      expect(writePage(catalogue, query(text)).body()).toBe(JSON.stringify(list(catalogue, text)));
    }
  });
});

describe("the description of an exchange", () => {
  const bare = { method: "POST", discoverable: true, input: {}, output: null };

  it("says how to ask, in the form that version 1 catalogues read", () => {
    expect(outputSchemaOf(bare)).toEqual({
      input: { type: "http", method: "POST", discoverable: true },
    });
  });

  it("carries what a buyer has to send and what comes back", () => {
    const input = {
      queryParams: { city: "string" },
      bodyType: "json",
      bodyFields: { text: { type: "string" } },
      headerFields: { "x-key": { type: "string" } },
    } as const;
    const output = { type: "object" };
    expect(outputSchemaOf({ ...bare, input, output })).toEqual({
      input: { type: "http", method: "POST", discoverable: true, ...input },
      output,
    });
  });

  it("is read by the official version 1 schema", () => {
    const input = { queryParams: { city: "string" }, bodyType: "json" } as const;
    const described = outputSchemaOf({ ...bare, input });
    expect(HTTPRequestStructureSchema.safeParse(described.input).error).toBeUndefined();
  });
});
