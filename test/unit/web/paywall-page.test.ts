/** The paywall page as a document: how large it gets, and what text can do to it. */
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MAX_PAGE_BYTES, paywallPage, type PageFacts } from "../../../src/web/paywall-page.ts";
import { NETWORK_NAMES, networkOf, type NetworkName } from "../../../src/x402/network.ts";
import { MAX_UINT256 } from "../../../src/x402/amount.ts";

const URL = "https://api.example.com/weather";

function offerOn(network: NetworkName, amountAtomic = 10_000n): PageFacts["offers"][number] {
  const { asset } = networkOf(network);
  return { network, asset, payTo: asset.address, amountAtomic };
}

function facts(changes: Partial<PageFacts> = {}): PageFacts {
  return {
    brand: "",
    description: "Weather",
    maxTimeoutSeconds: 60,
    offers: [offerOn("base")],
    others: [],
    version: 2,
    listing: null,
    ...changes,
  };
}

describe.each([1, 2] as const)("the paywall page that pays by version %i", (version) => {
  it("is small: two networks, one of them Solana", () => {
    const offers = [offerOn("base"), offerOn("solana")];
    const body = paywallPage(facts({ offers, version })).body(URL);
    expect(body.match(/type="radio"/g)).toHaveLength(2);
    expect(Buffer.byteLength(body)).toBeLessThan(14_200);
    expect(gzipSync(body).length).toBeLessThan(6_400);
  });

  it("has the script of that version alone, and a policy that lets in no other", () => {
    const { body, lines } = paywallPage(facts({ version }));
    const script = /<script>(.*)<\/script>$/s.exec(body(URL))?.[1] ?? "";
    const ofV2 = ["PAYMENT-SIGNATURE", "PAYMENT-REQUIRED", "x402Version:2"];
    expect(ofV2.filter((word) => script.includes(word))).toEqual(version === 2 ? ofV2 : []);
    expect(script.includes("x402Version:1")).toBe(version === 1);
    const hash = createHash("sha256").update(script).digest("base64");
    expect(lines[1]).toContain(`script-src 'sha256-${hash}'; `);
  });

  it("is never larger than its limit, whatever it sells and wherever", () => {
    const offers = NETWORK_NAMES.map((name) => offerOn(name, MAX_UINT256));
    const long = facts({
      version,
      offers,
      brand: '"'.repeat(60),
      description: '\u{1f600}"'.repeat(2_000),
      listing: URL + "/x".repeat(100),
    });
    for (const resource of [URL, `${URL}?${"'".repeat(8_000)}`, URL + "&".repeat(110)]) {
      const body = paywallPage(long).body(resource);
      expect(Buffer.byteLength(body)).toBeLessThanOrEqual(MAX_PAGE_BYTES);
      const first = version === 2 ? "eip155:43114" : "avalanche";
      expect(body).toContain(`"network":"${first}"`);
      // What there was no room for is not passed over in silence.
      expect(body).toContain("Programs can pay");
      expect(body).toContain(networkOf("solana").displayName);
    }
  });

  it("has room for three networks, of which it tells what is not the same only once", () => {
    const names = ["base", "solana", "polygon"] as const;
    const write = (all: readonly NetworkName[]): string =>
      paywallPage(facts({ version, offers: all.map((name) => offerOn(name)) })).body(URL);
    const body = write(names);
    expect(body).not.toContain("Programs can pay");
    const crowded = write([...names, "avalanche", "sei"]);
    expect(crowded.match(/type="radio"/g)).toHaveLength(3);
    expect(crowded).toContain("Programs can pay on Avalanche, Sei Network, too; this page cannot.");
    const [first, , third] = dataIn(body).offers;
    expect(first).toMatchObject({ amount: "10000", symbol: "USDC", chainId: 8453 });
    expect(Object.keys(third ?? {})).toEqual(
      expect.arrayContaining(["network", "name", "asset", "payTo", "chainId", "rpc"]),
    );
    for (const name of ["amount", "symbol", "decimals"]) expect(third).not.toHaveProperty(name);
  });
});

describe("the paywall page", () => {
  it("lets a name from right to left change no text beside it, and sets a long text as a text", () => {
    const brand = "\u202eevil";
    const { body } = paywallPage(facts({ brand, description: "Long. ".repeat(30) }));
    expect(body(URL)).toContain(`<bdi>${brand}</bdi>: payment required`);
    expect(body(URL)).toContain(`<h1 dir="auto" class="long">Long. `);
  });

  it("shows what only programs can pay, also where that is all", () => {
    const body = paywallPage(facts({ offers: [], others: [offerOn("solana")] })).body(URL);
    expect(body).toContain('<p class="price">0.01 USDC</p>');
    expect(body).toContain("Programs can pay on Solana, too; this page cannot.");
    expect(body).toContain('<fieldset id="form" hidden>');
  });

  it("has no markup and no script of a description, a name or a URL", () => {
    const plain = skeleton(paywallPage(facts({ brand: "a" })).body(URL));
    const text = fc.string({ unit: "binary", minLength: 1, maxLength: 40 });
    const hostile = fc.constantFrom("</script>", "<!--", "</title>", '"><b>', "\u2028", "]]>", "'");
    const any = fc.array(fc.oneof(text, hostile), { minLength: 1 }).map((parts) => parts.join(""));
    fc.assert(
      fc.property(any, any, any, (description, brand, path) => {
        const body = paywallPage(facts({ description, brand })).body(URL + path);
        expect(skeleton(body)).toBe(plain);
      }),
    );
  });

  it("repeats the URL so that a shell reads one word", () => {
    const body = paywallPage(facts()).body(`${URL}?a='$(id)'`);
    expect(body).toContain(
      `coinslot pay &#39;${URL}?a=&#39;\\&#39;&#39;$(id)&#39;\\&#39;&#39;&#39;`,
    );
  });

  it("names no other address than public ones of the networks", () => {
    const { body, lines } = paywallPage(facts());
    const hosts = new Set(body(URL).match(/https?:\/\/[^"'/<&]+/g));
    expect([...hosts]).toEqual([
      "https://api.example.com",
      "https://basescan.org",
      "https://mainnet.base.org",
    ]);
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
