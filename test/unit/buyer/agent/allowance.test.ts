/** Whom an agent may ask, and what it may spend: what its owner wrote, read strictly. */
import { describe, expect, test } from "vitest";
import {
  budgetFault,
  dollarsOf,
  readSeller,
  sellerAt,
  type AllowedSeller,
  type Allowance,
} from "../../../../src/buyer/agent/allowance.ts";
import { readQuoteJson } from "../../../../src/buyer/offer.ts";
import { readTerms } from "../../../../src/buyer/terms.ts";

const CENT = 10n ** 34n;

function sellers(...names: readonly string[]): readonly AllowedSeller[] {
  return names.map((name) => {
    const read = readSeller(name, null);
    if (!read.ok) throw new Error(read.error);
    return read.value;
  });
}

describe("a seller", () => {
  test.each([
    ["api.example.com", "https://api.example.com/a?b", true],
    ["API.example.com", "https://api.example.com/", true],
    ["api.example.com", "http://api.example.com/", false],
    ["api.example.com", "https://api.example.com:8443/", false],
    ["api.example.com", "https://api.example.com.evil.com/", false],
    ["api.example.com", "https://evil.com/api.example.com", false],
    ["api.example.com", "https://a.api.example.com/", false],
    ["api.example.com:8443", "https://api.example.com:8443/", true],
    ["http://10.0.0.7:8402", "http://10.0.0.7:8402/a", true],
    ["http://10.0.0.7:8402", "https://10.0.0.7:8402/a", false],
    ["https://localhost:1", "http://localhost:1/", false],
    ["localhost:4021", "http://localhost:4021/", true],
    ["127.0.0.1:4021", "http://127.0.0.1:4021/", true],
    ["127.0.0.1:4021", "http://127.0.0.1:4022/", false],
    ["*.example.com", "https://a.example.com/", true],
    ["*.example.com", "https://a.b.example.com/", true],
    ["*.example.com", "https://example.com/", false],
    ["*.example.com", "https://badexample.com/", false],
    ["*.example.com", "http://a.example.com/", false],
    ["*", "https://anybody.example.com/", true],
    ["*", "http://anybody.example.com/", false],
    ["*", "https://anybody.example.com:8443/", false],
    ["*", "https://169.254.169.254/latest", false],
    ["*", "https://[::1]/", false],
    ["*", "https://localhost/", false],
    ["*", "https://printer.local/", false],
    ["*", "https://db.internal/", false],
    ["*", "https://intranet/", false],
  ])("named as %s is at %s: %s", (name, url, isAllowed) => {
    expect(sellerAt(new URL(url), sellers(name)).ok).toBe(isAllowed);
  });

  test.each([
    "",
    "a b",
    "ftp://a.example.com",
    "a/b",
    "https://",
    "*.*.a",
    "a*",
    "x@y",
    "a".repeat(400),
  ])("is not named as %j", (name) => expect(readSeller(name, null).ok).toBe(false));

  test("is the one that is named most exactly, and each stranger is one of his own", () => {
    const all = sellers("*", "*.example.com", "api.example.com");
    const nameAt = (url: string) => {
      const seller = sellerAt(new URL(url), all);
      return seller.ok ? seller.value.name : seller.error;
    };
    expect(nameAt("https://api.example.com/")).toBe("api.example.com");
    // One budget, however many names somebody makes below his own.
    expect(nameAt("https://b.example.com/")).toBe("*.example.com");
    expect(nameAt("https://a.example.org/")).toBe("a.example.org");
    expect(sellerAt(new URL("https://a.example.org/"), [])).toMatchObject({
      error: expect.stringContaining("(none): only the owner can add it"),
    });
  });
});

describe("a budget", () => {
  const [seller] = sellers("api.example.com");
  const allowance: Allowance = {
    sellers: [],
    networks: [],
    perCall: 10n * CENT,
    perDay: 100n * CENT,
    perSeller: 50n * CENT,
    confirmAbove: null,
    isDry: false,
  };
  const fault = (cost: bigint, inAll: bigint, atSeller: bigint, own: bigint | null = null) =>
    seller && budgetFault(cost, { ...seller, perDay: own }, allowance, { inAll, atSeller });

  test("has room up to its last unit, and for nothing more", () => {
    expect(fault(10n * CENT, 0n, 0n)).toBeUndefined();
    expect(fault(10n * CENT + 1n, 0n, 0n)).toContain("is more than one call may cost, $0.1");
    expect(fault(CENT, 99n * CENT, 0n)).toBeUndefined();
    expect(fault(CENT, 99n * CENT + 1n, 0n)).toContain("over the budget of a day, $1:");
    expect(fault(CENT, 49n * CENT, 49n * CENT)).toBeUndefined();
    expect(fault(CENT, 49n * CENT + 1n, 49n * CENT + 1n)).toContain(
      "over the day's budget for api.example.com, $0.5:",
    );
    expect(fault(CENT, 60n * CENT, 60n * CENT, 61n * CENT)).toBeUndefined();
    expect(fault(CENT, 5n * CENT, 5n * CENT, 5n * CENT)).toContain("the day's budget for");
  });

  test("counts dollars of known tokens exactly, and has no room for a token that nobody knows", () => {
    const entry = (asset: string) => ({
      x402Version: 1,
      accepts: [
        {
          scheme: "exact",
          network: "base",
          asset,
          maxTimeoutSeconds: 60,
          payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
          maxAmountRequired: "10001",
          extra: { name: "Coin", version: "1" },
        },
      ],
    });
    const costOf = (asset: string) => {
      const quote = readQuoteJson(entry(asset));
      const [offer] = quote.ok ? quote.value.offers : [];
      const terms = offer && readTerms(offer, [asset]);
      return terms?.ok ? dollarsOf(terms.value) : terms;
    };
    const usdc = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
    expect(costOf(usdc)).toEqual({ ok: true, value: 10001n * 10n ** 30n });
    expect(costOf("0x209693Bc6afc0C5328bA36FaF03C514EF312287C")).toMatchObject({ ok: false });
  });
});
