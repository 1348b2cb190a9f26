/** The paywall page as a document: how large it gets, and what text can do to it. */
import { createHash, randomBytes } from "node:crypto";
import { zippedPage } from "../../../src/gateway/offers/offer-page.ts";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  FITTING_OFFERS,
  MAX_PAGE_BYTES,
  paywallPage,
  type PageFacts,
} from "../../../src/web/paywall-page.ts";
import { NETWORK_NAMES, networkOf, type NetworkName } from "../../../src/x402/network.ts";
import { ADDRESS_BYTES, encodeBase58 } from "../../../src/x402/solana-address.ts";

/** A token that is not worth dollars. */
const EURC = {
  symbol: "EURC",
  address: "0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42",
  decimals: 6,
  eip712: { name: "EURC", version: "2" },
} as const;

function gzipped(body: string): number {
  return zippedPage(body).length;
}

/** Characters that nothing foretells: no text of as many bytes is compressed less. */
function unforeseen(count: number): string {
  return randomBytes(count).toString("base64").slice(0, count);
}

const PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

/** More than the page shows of it, in words that do not repeat. */
const DESCRIPTION =
  "Hourly and daily weather forecasts of any city in the world for the next ten days: temperature and how it " +
  "feels, wind with gusts, rain, snow, clouds, humidity, pressure, sunrise and sunset. Each value comes with the " +
  "station or the model that it was taken from, when that was measured, and how sure one can be of it. Units are " +
  "those of the country that is asked about, unless others are named; places are found by name, by coordinates " +
  "or by postal code, in eleven languages, and history goes back to 1979 for most of Europe and America.";

/** What a large shop says of itself. */
const SAID = {
  brand: "Example Weather Services International",
  mimeType: "application/json",
  listing: "https://api.example.com/discovery/resources",
  support: "mailto:support@example.com",
} as const;

function offerOn(network: NetworkName, amountAtomic = 10_000n): PageFacts["offers"][number] {
  const { asset } = networkOf(network);
  return { network, asset, payTo: asset.address, amountAtomic };
}

function facts(changes: Partial<PageFacts> = {}): PageFacts {
  return {
    brand: "",
    host: "api.example.com",
    description: "Weather",
    mimeType: "",
    maxTimeoutSeconds: 60,
    againSeconds: 600,
    asksWho: true,
    credits: "https://api.example.com/.x402/credits",
    metered: true,
    offers: [offerOn("base")],
    others: [],
    version: 2,
    listing: null,
    support: null,
    ...changes,
  };
}

describe.each([1, 2] as const)("the paywall page that pays by version %i", (version) => {
  it("is small: two networks, one of them Solana", () => {
    const offers = [offerOn("base"), offerOn("solana")];
    const { body } = paywallPage(facts({ offers, version }));
    expect(body.match(/type="radio"/g)).toHaveLength(2);
    expect(gzipped(body)).toBeLessThan(12_800);
  });

  it("has the script of that version alone, and a policy that lets in no other", () => {
    const { body, lines } = paywallPage(facts({ version }));
    const script = /<script>(.*)<\/script>$/s.exec(body)?.[1] ?? "";
    const ofV2 = ["PAYMENT-SIGNATURE", "PAYMENT-REQUIRED", "x402Version:2"];
    expect(ofV2.filter((word) => script.includes(word))).toEqual(version === 2 ? ofV2 : []);
    expect(script.includes("x402Version:1")).toBe(version === 1);
    const hash = createHash("sha256").update(script).digest("base64");
    expect(lines[1]).toContain(`script-src 'sha256-${hash}'; `);
  });

  it("shows twelve networks and a description of 500 characters, and fits", () => {
    const payTo = { evm: PAYEE, solana: encodeBase58(randomBytes(ADDRESS_BYTES)) };
    const offers = NETWORK_NAMES.map((network) => {
      const { asset, kind } = networkOf(network);
      return { network, asset, payTo: payTo[kind], amountAtomic: 12_340_000n };
    });
    const description = DESCRIPTION.slice(0, 500);
    const { body } = paywallPage(facts({ ...SAID, version, offers, description }));
    const [own = ""] = body.split("<script>");
    expect(own.match(/type="radio"/g)).toHaveLength(12);
    expect(dataIn(body).offers).toHaveLength(12);
    for (const { displayName } of NETWORK_NAMES.map((name) => networkOf(name))) {
      expect(own.includes(`<b>${displayName}</b>`), displayName).toBe(true);
    }
    expect(own.includes(description)).toBe(true);
    expect(own.includes("this page cannot")).toBe(false);
    expect(gzipped(body)).toBeLessThanOrEqual(MAX_PAGE_BYTES);
  });

  it("fits with that many ways to pay, whatever it says", () => {
    for (let time = 0; time < 3; time += 1) {
      const offers = NETWORK_NAMES.slice(-FITTING_OFFERS).map((network) => {
        const payTo = encodeBase58(randomBytes(ADDRESS_BYTES));
        const amountAtomic = BigInt(`0x${randomBytes(32).toString("hex")}`);
        return { network, asset: networkOf(network).asset, payTo, amountAtomic };
      });
      const said = facts({
        version,
        offers,
        brand: unforeseen(60),
        host: `${unforeseen(50)}.example`,
        description: unforeseen(2_000),
        mimeType: unforeseen(100),
        listing: `https://${unforeseen(50)}.example/discovery/resources`,
        support: `https://${unforeseen(250)}.example/`,
      });
      expect(gzipped(paywallPage(said).body)).toBeLessThanOrEqual(MAX_PAGE_BYTES);
    }
  });

  it("tells of its ways to pay only once what is the same", () => {
    const names = ["base", "solana", "polygon"] as const;
    const { body } = paywallPage(facts({ version, offers: names.map((name) => offerOn(name)) }));
    const [first, , third] = dataIn(body).offers;
    expect(first).toMatchObject({ amount: "10000", symbol: "USDC", price: "$0.01", chainId: 8453 });
    expect(Object.keys(third ?? {})).toEqual(
      expect.arrayContaining(["network", "name", "asset", "payTo", "chainId", "rpc"]),
    );
    for (const name of ["amount", "symbol", "decimals"]) expect(third).not.toHaveProperty(name);
  });

  it("offers a faucet for what Circle gives away on test networks, and for nothing else", () => {
    const offers = [
      offerOn("base-sepolia"),
      { ...offerOn("base-sepolia"), asset: EURC },
      offerOn("base"),
    ];
    const { body } = paywallPage(facts({ version, offers, againSeconds: 1_800 }));
    const [, text = ""] = /id="offers">(.*?)<\/script>/.exec(body) ?? [];
    const data = JSON.parse(text);
    expect(data.again).toBe(1_800);
    expect(data.offers.map(({ isGiven }: { isGiven?: boolean }) => isGiven)).toEqual([
      true,
      false,
      false,
    ]);
  });

  it("names no package but those of official clients", () => {
    const { body } = paywallPage(facts({ version }));
    const [shown = ""] = /<pre>[^]*?<\/pre>/.exec(body) ?? [];
    expect(shown).toContain(version === 2 ? "@x402/fetch" : "x402-fetch");
    expect(shown).not.toContain("coinslot");
  });
});

describe("the paywall page", () => {
  it("says that it is not for sale where nothing can be paid, and has nothing to run", () => {
    const description = "<script>alert(1)</script>";
    const { body, lines } = paywallPage(facts({ offers: [], description, ...SAID, host: "" }));
    expect(body).toContain("<title>Not for sale at the moment</title>");
    expect(body).toContain("cannot be paid for at the moment, and nothing was charged");
    expect(body).toContain(`href="${SAID.support}"`);
    expect(body).not.toMatch(/<script|Payment required/);
    expect(lines).toContain("Content-Security-Policy");
    // What only programs can pay with can be paid.
    const others = [offerOn("solana")];
    expect(paywallPage(facts({ offers: [], others })).body).toContain("Payment required");
  });

  it.each([
    [offerOn("base", 10_000n), "$0.01", "0.01 USDC on Base"],
    [offerOn("base", 12_500_000n), "$12.50", "12.5 USDC on Base"],
    [offerOn("base", 3_000_000n), "$3", "3 USDC on Base"],
    [offerOn("base", 1_234n), "$0.001234", "0.001234 USDC on Base"],
    [{ ...offerOn("base"), asset: { ...EURC } }, "0.01 EURC", "0.01 EURC on Base"],
  ])("tells the price in dollars first, where it is dollars: %#", (offer, price, exact) => {
    const { body } = paywallPage(facts({ offers: [offer] }));
    expect(body.includes(`<title>${price} · Payment required</title>`)).toBe(true);
    expect(body.includes(`id="price">${price}</p>`)).toBe(true);
    expect(body.includes(`id="exact">${exact}</span>`)).toBe(true);
  });

  it("says who is paid, what is got, and which networks are for play", () => {
    const offers = [offerOn("base-sepolia"), offerOn("base")];
    const { body } = paywallPage(facts({ offers, brand: "Example", mimeType: "text/csv" }));
    expect(body.includes('<bdi lang="">Example</bdi> · <bdi id="host">api.example.com</bdi>')).toBe(
      true,
    );
    const { payTo } = offerOn("base-sepolia");
    expect(
      body.includes(`href="https://sepolia.basescan.org/address/${payTo}" title="${payTo}"`),
    ).toBe(true);
    expect(body.includes(">0x036C…CF7e</a>")).toBe(true);
    expect(body.includes("text/csv · ")).toBe(true);
    expect(body.includes('<mark id="test">test network, play money')).toBe(true);
    expect(body.match(/, test network</g)).toHaveLength(1);
  });

  it("lets a name from right to left change no text beside it, and sets a long text as a text", () => {
    const brand = "\u202eevil";
    const { body } = paywallPage(facts({ brand, description: "Long. ".repeat(30) }));
    expect(body.includes(`<bdi lang="">${brand}</bdi> · `)).toBe(true);
    expect(body.includes(`<h1 id="item" dir="auto" lang="" class="long">Long. `)).toBe(true);
  });

  it("shows what only programs can pay, also where that is all", () => {
    const { body } = paywallPage(facts({ offers: [], others: [offerOn("solana")] }));
    expect(body.includes('id="price">$0.01</p>')).toBe(true);
    expect(body).toContain("Programs can pay on Solana, too; this page cannot.");
    expect(body.includes('<fieldset id="form" hidden>')).toBe(true);
  });

  it("has no markup and no script of a description, a name or a type", () => {
    const plain = skeleton(paywallPage(facts({ brand: "a" })).body);
    const text = fc.string({ unit: "binary", minLength: 1, maxLength: 40 });
    const hostile = fc.constantFrom("</script>", "<!--", "</title>", '"><b>', "\u2028", "]]>", "'");
    const any = fc.array(fc.oneof(text, hostile), { minLength: 1 }).map((parts) => parts.join(""));
    fc.assert(
      fc.property(any, any, any, (description, brand, mimeType) => {
        const { body } = paywallPage(facts({ description, brand, mimeType }));
        expect(skeleton(body)).toBe(plain);
      }),
    );
  });

  it("names no other address than public ones of the networks", () => {
    const { body, lines } = paywallPage(facts({ credits: null }));
    const [own = ""] = body.split("<script>");
    const hosts = new Set(own.match(/https?:\/\/[^"'/<&]+/g));
    expect([...hosts]).toEqual(["https://basescan.org", "https://mainnet.base.org"]);
    expect(lines.join("\n")).not.toContain("unsafe");
  });
});

/** What the script reads. */
function dataIn(body: string): { readonly offers: readonly Readonly<Record<string, unknown>>[] } {
  return JSON.parse(/id="offers">([^<]*)</.exec(body)?.[1] ?? "");
}

/** The tags of a document, without what stands between them. A long description has a look of its own. */
function skeleton(body: string): string {
  return body.replace(/>[^<]*</g, "><").replace(' class="long"', "");
}
