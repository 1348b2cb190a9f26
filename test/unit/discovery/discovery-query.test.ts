import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  DEFAULT_LIMIT,
  MAX_LIMIT,
  MAX_METADATA_FILTERS,
  MAX_PARAMETERS,
  MAX_QUERY_LENGTH,
  MAX_WORDS,
  parseDiscoveryQuery,
  type DiscoveryQuery,
} from "../../../src/discovery/discovery-query.ts";

function read(query: string): DiscoveryQuery {
  const result = parseDiscoveryQuery(query);
  if (!result.ok) throw new Error(`${query} was refused: ${result.error.detail}`);
  return result.value;
}

function refusal(query: string): string | undefined {
  const result = parseDiscoveryQuery(query);
  return result.ok ? undefined : result.error.detail;
}

function many(count: number): string {
  return Array.from({ length: count }, () => "").join("&");
}

function isKey(text: string): boolean {
  return !/[[\]]|^(?:__proto__|constructor|prototype)$/.test(text);
}

describe("a discovery query", () => {
  it("has the protocol's defaults when it is empty (section 4.4)", () => {
    const defaults = {
      type: undefined,
      limit: DEFAULT_LIMIT,
      offset: 0,
      metadata: [],
      form: "v1",
      scheme: undefined,
      extension: undefined,
      offer: undefined,
      words: [],
      updatedSince: undefined,
      sort: undefined,
    };
    expect(DEFAULT_LIMIT).toBe(20);
    for (const empty of ["", "?", "&", "&&"]) expect(read(empty)).toEqual(defaults);
  });

  it("is read with or without its question mark", () => {
    expect(read("?limit=7")).toEqual(read("limit=7"));
  });

  it("carries type, limit, offset and filters", () => {
    expect(read("type=http&limit=5&offset=40&metadata[provider]=Example+Inc.")).toMatchObject({
      type: "http",
      limit: 5,
      offset: 40,
      metadata: [{ key: "provider", value: "Example Inc." }],
    });
  });

  it("takes percent-encoded brackets, spaces and other characters", () => {
    expect(read("metadata%5Bprovider%5D=Caf%C3%A9%20%26%20Co%3D").metadata).toEqual([
      { key: "provider", value: "Café & Co=" },
    ]);
  });

  it("keeps every filter, repeated ones too", () => {
    expect(read("metadata[a]=1&metadata[b]=2&metadata[a]=3").metadata).toEqual([
      { key: "a", value: "1" },
      { key: "b", value: "2" },
      { key: "a", value: "3" },
    ]);
  });

  it.each(["__proto__", "constructor", "prototype"])(
    "refuses the name %s wherever it stands",
    (name) => {
      const said = "the query has a name that is not allowed";
      expect(refusal(`${name}=x`)).toBe(said);
      expect(refusal(`metadata[${name}]=polluted`)).toBe(said);
      expect(refusal(`limit=1&metadata%5B${name}%5D=polluted`)).toBe(said);
      expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
    },
  );

  it.each(["limit[]=1", "type[a]=b", "a[b][c]=d", "x[__proto__][y]=1", "[]=1", "q]=1"])(
    "builds no object of %s",
    (query) => expect(refusal(query)).toBe("only metadata takes a name in brackets"),
  );

  it.each(["a=%00", "%0d%0a=1", "metadata[a]=%1b[0m", "q=a%7f"])(
    "refuses the control character in %s",
    (query) => expect(refusal(query)).toBe("the query has control characters"),
  );

  it("refuses more parameters than anyone needs, whatever they are", () => {
    expect(read(many(MAX_PARAMETERS))).toEqual(read(""));
    expect(refusal(many(MAX_PARAMETERS + 1))).toBe("the query must have at most 64 parameters");
  });

  it("reads what one way to pay has to fulfil", () => {
    expect(read("network=base&asset=0xAb&payTo=Fee&maxPrice=$0.05").offer).toEqual({
      network: "base",
      asset: "0xAb",
      payTo: "Fee",
      maxPrice: { kind: "dollars", amount: 5n * 10n ** 34n },
    });
    expect(read("maxPrice=0.05USD").offer).toEqual(read("maxPrice=%240.05").offer);
    expect(read("maxPrice=50000units").offer?.maxPrice).toEqual({ kind: "units", amount: 50_000n });
  });

  it.each([
    "0.05",
    "50000",
    "$",
    "$0",
    "$1e3",
    "-1units",
    "$-1",
    "€1",
    "$0.1.2",
    "units",
    "1 units",
  ])("refuses the price limit %j, which could mean more than one thing or nothing", (limit) => {
    expect(refusal(`maxPrice=${encodeURIComponent(limit)}`)).toBe(
      "maxPrice must be a price with its unit: $0.05, 0.05usd or 50000units",
    );
  });

  it("reads a search as words without letter case", () => {
    expect(read("q=Caf%C3%A9,+weather%2Fweather").words).toEqual(["café", "weather"]);
    expect(refusal("q=+-+")).toBe("q must have a letter or a digit");
    expect(refusal(`q=${Array.from({ length: MAX_WORDS + 1 }, (_, n) => `w${n}`).join("+")}`)).toBe(
      "q must have at most 8 words",
    );
  });

  it.each(["type", "network", "asset", "payTo", "maxPrice", "q"])(
    "refuses %s twice, and without a value",
    (name) => {
      expect(refusal(`${name}=$1&${name}=$1`)).toBe(`${name} must be given once`);
      expect(refusal(`${name}=`)).toBe(`${name} must not be empty`);
      expect(refusal(name)).toBe(`${name} must not be empty`);
    },
  );

  it.each([
    ["maxPrise=$1", 1, "maxPrice"],
    ["limit=5&LIMIT=999", 2, "limit"],
    ["max_price=$1", 1, "maxPrice"],
    ["maxprice_usd=1", 1, "maxPrice"],
    ["tpye=http", 1, "type"],
    ["sort_by=price", 1, "sort"],
    ["updated_since=0", 1, "updatedSince"],
  ])(
    "refuses %s, since what is not known would be left out, and names the nearest",
    (text, at, name) => {
      expect(refusal(text)).toBe(`parameter ${at} is not known here; the nearest one is ${name}`);
    },
  );

  it("names one that it knows, however long or far from all of them a name is", () => {
    for (const name of ["u".repeat(4_000), "=", "é", "metadataX"]) {
      expect(refusal(`${name}=1`)).toMatch(
        /^parameter 1 is not known here; the nearest one is \w+$/,
      );
    }
  });

  it("knows the version of the listing, whose form it is", () => {
    expect(read("x402Version=2").form).toBe("v2");
    expect(read("x402Version=1").form).toBe("v1");
  });

  it("knows the names of the large catalogues", () => {
    expect(read("maxUsdPrice=0.05").offer).toEqual(read("maxPrice=$0.05").offer);
    expect(read("maxUsdPrice=$0.05").offer).toEqual(read("maxPrice=$0.05").offer);
    expect(read("query=Weather&cursor=20")).toEqual(read("q=weather&offset=20"));
    expect(read("scheme=upto&extensions=bazaar")).toMatchObject({
      scheme: "upto",
      extension: "bazaar",
    });
    expect(refusal("maxUsdPrice=50000units")).toBe("maxUsdPrice must be a price in dollars: 0.05");
    expect(refusal("maxUsdPrice=1&maxPrice=$1")).toBe(
      "maxUsdPrice and maxPrice mean the same: give one",
    );
    expect(refusal("q=a&query=b")).toBe("q and query mean the same: give one");
  });

  it.each([
    ["price", "price", false],
    ["price_asc", "price", false],
    ["price_desc", "price", true],
    ["updated", "updated", true],
    ["updated_asc", "updated", false],
    ["updated_desc", "updated", true],
  ])("is sorted by %s", (sort, by, isDescending) => {
    expect(read(`sort=${sort}`).sort).toEqual({ by, isDescending });
    expect(refusal("sort=cheapest")).toBe(
      "sort must be one of price, price_asc, price_desc, updated, updated_asc, updated_desc",
    );
  });

  it.each([
    ["1703123456", 1_703_123_456],
    ["2023-12-21", 1_703_116_800],
    ["2023-12-21T01:50:56Z", 1_703_123_456],
    ["2023-12-21T02:50:55.5%2B01:00", 1_703_123_456],
  ])("takes what has changed since %s", (since, seconds) => {
    expect(read(`updatedSince=${since}`).updatedSince).toBe(seconds);
  });

  it.each(["yesterday", "-1", "2023-13-01", "2023-12-21T01:50:56", "1e9", "Infinity"])(
    "refuses the time %s",
    (since) => {
      expect(refusal(`updatedSince=${since}`)).toBe(
        "updatedSince must be a time like 2026-01-31T12:00:00Z, or Unix seconds",
      );
    },
  );

  it.each([1, 2, 20, 99, MAX_LIMIT])("takes the limit %i", (limit) => {
    expect(read(`limit=${limit}`).limit).toBe(limit);
  });

  it.each(["0", "101", "-1", "+5", "5.0", "1e1", "0x5", "05", "", " 5", "five", "NaN", "٣"])(
    "refuses the limit %j",
    (limit) => {
      expect(refusal(`limit=${encodeURIComponent(limit)}`)).toBe(
        "limit must be an integer from 1 to 100",
      );
    },
  );

  it.each([0, 1, 100, 1_000_000, Number.MAX_SAFE_INTEGER])("takes the offset %i", (offset) => {
    expect(read(`offset=${offset}`).offset).toBe(offset);
  });

  it.each(["-1", "1.5", "", "00", "1e3", "9007199254740992", "99999999999999999999", "null"])(
    "refuses the offset %j",
    (offset) => {
      expect(refusal(`offset=${offset}`)).toBe(
        "offset must be an integer from 0 to 9007199254740991",
      );
    },
  );

  it.each(["limit", "offset", "type"])("refuses %s given twice, even with one value", (name) => {
    expect(refusal(`${name}=1&${name}=1`)).toBe(`${name} must be given once`);
  });

  it("refuses an empty type", () => {
    expect(refusal("type=")).toBe("type must not be empty");
    expect(refusal("type")).toBe("type must not be empty");
  });

  it.each(["metadata=x", "metadata[]=x", "metadata[a][b]=x", "metadata[a=x", "metadata[a]b=x"])(
    "refuses %s instead of listing what it was to leave out",
    (query) => {
      expect(refusal(query)).toBe("a metadata filter must be metadata[key]=value");
    },
  );

  it.each(["limit=%", "limit=%2", "a=%zz", "%ff=1", "metadata[a]=%c3%28", "type=%ed%a0%80"])(
    "refuses the broken percent-encoding of %s",
    (query) => {
      expect(refusal(query)).toBe("the query has malformed percent-encoding");
    },
  );

  it("refuses more filters than it promises to hold against every resource", () => {
    const most = Array.from({ length: MAX_METADATA_FILTERS }, () => "metadata[a]=1").join("&");
    expect(read(most).metadata).toHaveLength(16);
    expect(refusal(`${most}&metadata[a]=1`)).toBe("at most 16 metadata filters are allowed");
  });

  it("refuses a query longer than its limit", () => {
    expect(refusal(`type=${"a".repeat(MAX_QUERY_LENGTH - 5)}`)).toBeUndefined();
    expect(refusal(`type=${"a".repeat(MAX_QUERY_LENGTH - 4)}`)).toBe(
      "the query must have at most 4096 characters",
    );
  });

  it("is read or refused, and never throws, whatever is sent", () => {
    const hostile = fc.oneof(
      fc.string({ unit: "binary", maxLength: 200 }),
      fc.string({
        unit: fc.constantFrom("%", "[", "]", "=", "&", "+", "?", "0", "5", "f", "\u0000", "\ud800"),
        maxLength: 60,
      }),
      fc
        .array(
          fc.tuple(
            fc.constantFrom(
              "limit",
              "offset",
              "type",
              "metadata",
              "metadata[a]",
              "__proto__",
              "%5B",
            ),
            fc.string({ unit: "binary", maxLength: 12 }),
          ),
          { maxLength: 20 },
        )
        .map((fields) => fields.map(([name, value]) => `${name}=${value}`).join("&")),
    );
    fc.assert(
      fc.property(hostile, (query) => {
        const result = parseDiscoveryQuery(query);
        if (!result.ok) return result.error.detail.length < 100;
        const { limit, offset } = result.value;
        return limit >= 1 && limit <= MAX_LIMIT && Number.isSafeInteger(offset) && offset >= 0;
      }),
      { numRuns: 5000 },
    );
  });

  it("gives back whatever names and values were percent-encoded into it", () => {
    const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 });
    const plain = text.filter((each) => !/\p{Cc}/u.test(each));
    fc.assert(
      fc.property(plain.filter(isKey), plain, (name, value) => {
        const query = `metadata[${encodeURIComponent(name)}]=${encodeURIComponent(value)}`;
        expect(read(query).metadata).toEqual([{ key: name, value }]);
      }),
      { numRuns: 1000 },
    );
  });
});
