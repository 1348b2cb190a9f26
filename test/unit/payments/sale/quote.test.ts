/** What version 2 is asked in a header: what goes first where it would be too long, and how long it is. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import { validatePaymentRequired } from "@x402/core/schemas";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  NO_FEE_PAYERS,
  Offers,
  type Offer,
  type QuoteTerms,
} from "../../../../src/payments/sale/offers.ts";
import { NETWORK_NAMES, networkOf } from "../../../../src/x402/network.ts";
import { FEE_PAYER } from "./solana-payment.ts";

const GET = { type: "http", method: "GET", discoverable: true };
const DECLARED = {
  ...GET,
  queryParams: {
    city: { type: "string", description: "Which city", required: true, example: "Oslo" },
    days: { type: "integer", description: "How many days", example: 3 },
  },
};
const SAID = { error: "why", errorV2: "PAYMENT-SIGNATURE header is required" };
const URL = "https://shop.example/weather?city=Oslo";

function offersOn(networks: readonly string[], input: object | undefined): readonly Offer[] {
  return networks.map((name) => {
    const network = networkOf(name as (typeof NETWORK_NAMES)[number]);
    const { asset } = network;
    return {
      scheme: "exact",
      network: name,
      maxAmountRequired: "10000",
      asset: asset.address,
      payTo: network.kind === "evm" ? `0x${"1".repeat(40)}` : FEE_PAYER,
      description: "Current weather",
      mimeType: "application/json",
      maxTimeoutSeconds: 60,
      ...(input && { outputSchema: { input } }),
      ...("eip712" in asset && { extra: { ...asset.eip712 } }),
    };
  });
}

const feePayers = { ...NO_FEE_PAYERS, offered: () => FEE_PAYER, isKnown: () => true };

function quoteOf(
  networks: readonly string[],
  input: object | undefined,
  { url = URL, terms = {} }: { readonly url?: string; readonly terms?: QuoteTerms } = {},
) {
  const offers = new Offers(offersOn(networks, input), feePayers, terms);
  const [name, value] = offers.quoteLines(SAID, url);
  if (value === undefined) return undefined;
  expect(name).toBe("PAYMENT-REQUIRED");
  expect(value).toMatch(/^[A-Za-z0-9+/]+={0,2}$/);
  const quote = decodePaymentRequiredHeader(value);
  validatePaymentRequired(quote);
  return { value, quote };
}

const EVM = NETWORK_NAMES.filter((name) => networkOf(name).kind === "evm");

describe("the quote of version 2", () => {
  test("is one that the official package takes, of any text, in ASCII", () => {
    const word = fc.string({ unit: "binary", maxLength: 40 });
    fc.assert(
      fc.property(word, word, word, (description, path, error) => {
        const [offer] = offersOn(["base"], GET);
        if (offer === undefined) throw new Error("there is none");
        const url = `https://shop.example/${path}`;
        const offers = new Offers([{ ...offer, description }]);
        const [, value = ""] = offers.quoteLines({ error, errorV2: error }, url);
        const quote = decodePaymentRequiredHeader(value);
        expect(quote).toMatchObject({ x402Version: 2, error, resource: { url } });
        expect(quote.resource.description ?? "").toBe(description);
      }),
    );
  });

  test("lets go of schemas, then of extensions, and never of offers, to stay under 4,096 bytes", () => {
    const [one, some, many] = [1, 8, EVM.length].map((count) => {
      return quoteOf(EVM.slice(0, count), DECLARED);
    });
    expect(one?.quote.extensions?.["bazaar"]).toHaveProperty("schema");
    expect(some?.quote.extensions?.["bazaar"]).toHaveProperty("info");
    expect(some?.quote.extensions?.["bazaar"]).not.toHaveProperty("schema");
    expect(many?.quote).not.toHaveProperty("extensions");
    expect(many?.quote.accepts).toHaveLength(EVM.length);
    for (const each of [one, some]) expect(each?.value.length).toBeLessThanOrEqual(3_250);
  });

  test.each([1, 2, 6])(
    "lets go of a visitor's query where a head is under 4,096 bytes without it, with %i networks",
    (count) => {
      for (let length = 0; length <= 8_192; length += 256) {
        const url = `${URL}&q=${"x".repeat(length)}`;
        const { value = "", quote } = quoteOf(EVM.slice(0, count), DECLARED, { url }) ?? {};
        expect(value.length).toBeLessThanOrEqual(3_250);
        expect(quote?.accepts).toHaveLength(count);
        expect([url, "https://shop.example/weather"]).toContain(quote?.resource.url);
      }
    },
  );

  test("lets go of the query and of what the resource is, then of itself, to stay under 16 KiB", () => {
    const long = `${URL}&q=${"x".repeat(9_000)}`;
    expect(quoteOf(EVM, DECLARED, { url: long })?.quote.resource).toEqual({
      url: "https://shop.example/weather",
    });
    const path = `https://shop.example/${"x".repeat(9_500)}`;
    expect(quoteOf(["base"], DECLARED, { url: path })).toBeUndefined();
  });

  test("names the service, and is not there where version 2 is off", () => {
    const service = { serviceName: "Weather", tags: ["sky"] };
    expect(quoteOf(["base"], GET, { terms: { service } })?.quote.resource).toMatchObject(service);
    expect(
      quoteOf(["base"], GET, { terms: { protocol: { v1: true, v2: false } } }),
    ).toBeUndefined();
  });

  test("is as long as the paper says", () => {
    const paper = readFileSync(join(import.meta.dirname, "../../../../deploy/README.md"), "utf8");
    const rows = [1, 2, 4, 8, 12].map((count) => {
      const networks = [...EVM, "solana", "solana-devnet"].slice(0, count);
      const inputs = [undefined, GET, DECLARED];
      const [bare, asked, declared] = inputs.map((input) => {
        const { quote, value = "" } = quoteOf(networks, input) ?? {};
        const bazaar = quote?.extensions?.["bazaar"];
        const kept = bazaar === undefined ? "" : "schema" in Object(bazaar) ? "" : ", no schema";
        const isGone = input !== undefined && bazaar === undefined;
        return `${value.length.toLocaleString("en")}${isGone ? ", no extension" : kept}`;
      });
      return [count, bare, asked, declared].join(" | ");
    });
    const told = paper.split("\n").flatMap((line) => {
      const cells = line.split("|").map((cell) => cell.trim());
      return /^\d+$/.test(cells[1] ?? "") && cells.length === 6
        ? [cells.slice(1, 5).join(" | ")]
        : [];
    });
    expect(told).toEqual(rows);
  });
});
