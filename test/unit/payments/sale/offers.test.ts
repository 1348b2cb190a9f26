import { describe, expect, test, vi } from "vitest";
import { PaymentRequirementsSchema } from "x402/types";
import { Offers, type Offer } from "../../../../src/payments/sale/offers.ts";
import {
  mismatchOf,
  type BlockhashHint,
  type RequirementsV2,
} from "../../../../src/x402/version-2.ts";
import { SIGN_IN, SignIns, supportedChains } from "../../../../src/x402/sign-in.ts";
import { examplePayment } from "../../ledger/example-payment.ts";
import { FEE_PAYER, NETWORK, OTHER_FEE_PAYER, solanaRequirements } from "./solana-payment.ts";
import { States } from "../../gateway/states.ts";
import { Told } from "../../gateway/told.ts";

const URL = "https://shop.example/weather?city=%22Rome%22";

const { resource: _evm, ...evm } = examplePayment(1).request.paymentRequirements;
const { resource: _solana, extra: _extra, ...solana } = solanaRequirements();

const PAY = { error: "pay", errorV2: "pay now" };
const acceptsOf = (offers: Offers): { network: string; extra?: object }[] =>
  Object(JSON.parse(offers.body(PAY, URL))).accepts;

const told = (address = FEE_PAYER) => new Told({ [NETWORK]: address });

describe("a 402 body", () => {
  test("names token domains on EVM and the fee payer on Solana, in the order of the offers", () => {
    const offers = new Offers([evm, solana], told());
    expect(JSON.parse(offers.body({ ...PAY, error: 'why "so"' }, URL))).toEqual({
      x402Version: 1,
      error: 'why "so"',
      accepts: [
        { ...evm, resource: URL },
        { ...solana, resource: URL, extra: { feePayer: FEE_PAYER } },
      ],
    });
    expect(acceptsOf(offers)).toEqual(offers.accepts(URL));
    expect(offers.question(PAY, URL)).toBe(offers.body(PAY, URL));
    expect(offers.requirements(URL)).toEqual(offers.accepts(URL));
  });

  test("has entries that the official schema accepts", () => {
    for (const entry of acceptsOf(new Offers([evm, solana], told()))) {
      const read = PaymentRequirementsSchema.safeParse(entry);
      expect(read.error?.issues ?? []).toEqual([]);
    }
  });

  test("names another fee payer as soon as another one is told", () => {
    const feePayers = told();
    const offers = new Offers([solana], feePayers);
    expect(acceptsOf(offers)).toMatchObject([{ extra: { feePayer: FEE_PAYER } }]);
    feePayers.tell(NETWORK, OTHER_FEE_PAYER);
    expect(acceptsOf(offers)).toMatchObject([{ extra: { feePayer: OTHER_FEE_PAYER } }]);
  });

  test("leaves out networks that are closed, and has those that are unsteady behind the others, in both versions", () => {
    const networks = new States();
    const other = { ...evm, network: "base" };
    const offers = new Offers([evm, other, solana], told(), { networks });
    const asked = () => {
      const [, quote = ""] = offers.quoteLines(PAY, URL);
      const { accepts } = JSON.parse(atob(quote));
      const named = acceptsOf(offers).map(({ network }) => network);
      expect(offers.accepts(URL).map(({ network }) => network)).toEqual(named);
      expect(accepts).toHaveLength(named.length);
      return named;
    };
    expect(asked()).toEqual([evm.network, "base", NETWORK]);
    const { revision } = offers;
    networks.tell(evm.network, "unsteady");
    expect(asked()).toEqual(["base", NETWORK, evm.network]);
    expect(offers.revision).not.toBe(revision);
    networks.tell("base", "closed");
    expect(asked()).toEqual([NETWORK, evm.network]);
    expect([offers.missing, offers.isClosed("base"), offers.isClosed(NETWORK)]).toEqual([
      ["base"],
      true,
      false,
    ]);
    // Whoever was asked before may still show what he has signed.
    expect(offers.requirements(URL).map(({ network }) => network)).toEqual([
      evm.network,
      "base",
      NETWORK,
    ]);
    networks.tell(evm.network, "closed");
    networks.tell(NETWORK, "closed");
    expect([offers.areNone, offers.question(PAY, URL), offers.quoteLines(PAY, URL)]).toEqual([
      true,
      undefined,
      [],
    ]);
    networks.tell("base", "open");
    expect(asked()).toEqual(["base"]);
  });

  test("leaves out what nobody pays the network fee for, until somebody does", () => {
    const feePayers = new Told();
    const offers = new Offers([evm, solana], feePayers);
    expect(acceptsOf(offers).map(({ network }) => network)).toEqual([evm.network]);
    expect([offers.missing, offers.areNone]).toEqual([[NETWORK], false]);
    feePayers.tell(NETWORK, FEE_PAYER);
    expect(acceptsOf(offers).map(({ network }) => network)).toEqual([evm.network, NETWORK]);
    expect([offers.missing, offers.areNone]).toEqual([[], false]);
  });

  test("would ask for nothing where all is left out", () => {
    const feePayers = told();
    const mainnet: Offer = { ...solana, network: "solana" };
    const offers = new Offers([solana, mainnet], feePayers);
    expect([offers.missing, offers.areNone]).toEqual([["solana"], false]);
    feePayers.tell(NETWORK, undefined);
    expect([offers.missing, offers.areNone]).toEqual([[NETWORK, "solana"], true]);
    expect(acceptsOf(offers)).toEqual([]);
    expect(offers.question(PAY, URL)).toBeUndefined();
  });

  test("of EVM offers alone is prepared once, and depends on nobody", () => {
    const feePayers = told();
    const offers = new Offers([evm], feePayers);
    const { reads } = feePayers;
    feePayers.tell(NETWORK, OTHER_FEE_PAYER);
    expect(acceptsOf(offers)).toHaveLength(1);
    expect([offers.areNone, feePayers.reads]).toEqual([false, reads]);
  });
});

describe("the header of version 2", () => {
  const quoteOf = (offers: Offers): { accepts: { extra: object }[] } => {
    const [, value = ""] = offers.quoteLines(PAY, URL);
    return JSON.parse(atob(value));
  };
  const first = { recentBlockhash: "one", lastValidBlockHeight: "150" };

  test("tells a blockhash of the moment with what is paid on Solana, and the body none", () => {
    const hints: { of: (network: string) => BlockhashHint | undefined } = { of: () => undefined };
    const offers = new Offers([evm, solana], told(), { blockhashes: hints });
    const bare = new Offers([evm, solana], told());
    expect(offers.quoteLines(PAY, URL)).toEqual(bare.quoteLines(PAY, URL));
    hints.of = (network) => (network === NETWORK ? first : undefined);
    const [evmExtra, solanaExtra] = quoteOf(bare).accepts.map(({ extra }) => extra);
    expect(quoteOf(offers).accepts).toMatchObject([{}, { extra: first }]);
    expect(quoteOf(offers).accepts.map(({ extra }) => extra)).toEqual([
      evmExtra,
      { ...solanaExtra, ...first },
    ]);
    expect(offers.body(PAY, URL)).toBe(bare.body(PAY, URL));
    const second = { recentBlockhash: "two" };
    hints.of = () => second;
    expect(quoteOf(offers).accepts[1]?.extra).toEqual({ ...solanaExtra, ...second });
    // Whoever has accepted any of them has accepted the offer.
    const [requirement] = offers.requirements(URL).slice(1);
    for (const { accepts } of [quoteOf(offers), quoteOf(bare)]) {
      const accepted = accepts[1] as RequirementsV2;
      expect(requirement && mismatchOf(accepted, requirement)).toBeUndefined();
    }
  });

  test("is made once for what is asked again, and anew for another URL or another reason", () => {
    const offers = new Offers([evm], told());
    const urlOf = (lines: readonly string[]) => JSON.parse(atob(lines[1] ?? "")).resource.url;
    const one = offers.quoteLines(PAY, URL);
    expect(offers.quoteLines(PAY, URL)).toBe(one);
    const [other, why] = [`${URL}?b`, { ...PAY, errorV2: "why" }];
    expect(urlOf(offers.quoteLines(PAY, other))).toBe(other);
    const [, said = ""] = offers.quoteLines(why, other);
    expect(JSON.parse(atob(said))).toMatchObject({ error: "why", resource: { url: other } });
    expect(offers.quoteLines(PAY, URL)).toEqual(one);
    // What a stranger has made long is not kept.
    for (const long of [`${URL}?${"a".repeat(4_000)}`, `${URL}/${"a".repeat(4_000)}`]) {
      expect(offers.quoteLines(PAY, long)).not.toBe(offers.quoteLines(PAY, long));
    }
  });

  test("asks for a memo on Solana in place of a blockhash, and version 1 for none", () => {
    const of = vi.fn(() => first);
    const memo = "order book 7";
    const offers = new Offers([evm, solana], told(), { memo, blockhashes: { of } });
    const bare = new Offers([evm, solana], told());
    const [evmExtra, solanaExtra] = quoteOf(bare).accepts.map(({ extra }) => extra);
    expect(quoteOf(offers).accepts.map(({ extra }) => extra)).toEqual([
      evmExtra,
      { ...solanaExtra, memo },
    ]);
    expect(of).not.toHaveBeenCalled();
    expect(offers.body(PAY, URL)).toBe(bare.body(PAY, URL));
    expect(offers.requirements(URL)).toEqual(bare.requirements(URL));
    expect(offers.requirements(URL, 2)).toEqual([
      { ...evm, resource: URL },
      { ...solana, resource: URL, extra: { feePayer: FEE_PAYER, memo } },
    ]);
  });

  test("of EVM offers alone asks nobody for one", () => {
    const of = vi.fn(() => first);
    const offers = new Offers([evm], told(), { blockhashes: { of } });
    expect(quoteOf(offers).accepts).toHaveLength(1);
    expect(of).not.toHaveBeenCalled();
  });
});

describe("a quote of version 2 that asks who a client is", () => {
  const issuer = new SignIns({ key: Buffer.alloc(32), publicUrl: "https://shop.example" });
  const signIn = { issuer, now: () => 0 };
  const input = { type: "http", method: "GET", discoverable: true };
  const quoted = (offered: readonly Offer[], url = "https://shop.example/weather") => {
    const [asking, silent] = [{ signIn }, {}].map((terms) => {
      const all = { ...terms, identifier: "optional" } as const;
      const [, value = ""] = new Offers(offered, told(), all).quoteLines(PAY, url);
      return { bytes: value.length, quote: JSON.parse(atob(value)) };
    });
    return { asking, silent };
  };

  test("says the rest as it is said without, and each time another nonce", () => {
    for (const outputSchema of [undefined, { input }]) {
      const offered = [{ ...evm, ...(outputSchema && { outputSchema }) }, solana];
      const { asking, silent } = quoted(offered, URL);
      const { [SIGN_IN]: challenge, ...extensions } = asking?.quote.extensions ?? {};
      expect({ ...asking?.quote, extensions }).toEqual(silent?.quote);
      expect(challenge.info.uri).toBe("https://shop.example/weather");
      expect(challenge.supportedChains).toEqual(supportedChains([evm.network, solana.network]));
    }
    const offers = new Offers([evm], told(), { signIn });
    // Of each length there is, since three bytes are encoded together.
    for (const url of ["", "a", "aa", "aaa"].map((end) => `https://shop.example/${end}`)) {
      const asked = Array.from({ length: 10 }, () => {
        const [, value = ""] = offers.quoteLines(PAY, url);
        const quote = JSON.parse(atob(value));
        const { nonce, ...info } = quote.extensions[SIGN_IN].info;
        return { nonce, rest: JSON.stringify({ ...quote, info, extensions: undefined }) };
      });
      expect(new Set(asked.map(({ nonce }) => nonce)).size).toBe(asked.length);
      expect(new Set(asked.map(({ rest }) => rest)).size).toBe(1);
      for (const { nonce } of asked) expect(nonce).toMatch(/^[\da-f]{32}$/);
    }
  });

  test("has the time of the challenge that it was asked for last", () => {
    let ms = 0;
    const offers = new Offers([evm], told(), { signIn: { issuer, now: () => ms } });
    for (const second of [0, 0, 1, 1, 2]) {
      ms = second * 1_000;
      const [, value = ""] = offers.quoteLines(PAY, URL);
      const { issuedAt } = JSON.parse(atob(value)).extensions[SIGN_IN].info;
      expect(Date.parse(issuedAt)).toBe(ms);
    }
  });

  test("leaves that out first where it is too long", () => {
    for (const length of [0, 300, 1_700, 2_000]) {
      const { asking, silent } = quoted([{ ...evm, description: "x".repeat(length) }]);
      const isAsking = Object.hasOwn(asking?.quote.extensions ?? {}, SIGN_IN);
      expect(asking?.bytes).toBeLessThanOrEqual(3_250);
      expect(isAsking).toBe(length < 1_000);
      if (!isAsking) expect(asking).toEqual(silent);
    }
  });
});

test("requirements for a presented payment are there also while nobody is asked for them", () => {
  const offers = new Offers([solana], new Told());
  expect(offers.requirements(URL)).toEqual([{ ...solana, resource: URL }]);
  expect(offers.accepts(URL)).toEqual([]);
});

describe("a quote of version 2 where purchases may be named", () => {
  const extensionsOf = (identifier: "off" | "optional" | "required", said: object = {}) => {
    const queryParams = { a: { type: "string", ...said } };
    const input = { type: "http", method: "GET", discoverable: true, queryParams };
    const offers = new Offers([{ ...evm, outputSchema: { input } }], undefined, { identifier });
    const [, quote = ""] = offers.quoteLines(PAY, URL);
    const { extensions = {} } = JSON.parse(atob(quote));
    return { extensions, bytes: quote.length };
  };

  test("says so beside the rest, at the price of a tenth of the head that proxies read", () => {
    const { extensions, bytes } = extensionsOf("optional");
    expect(Object.keys(extensions)).toEqual(["bazaar", "payment-identifier"]);
    expect(extensions["payment-identifier"]).toMatchObject({ info: { required: false } });
    expect(bytes - extensionsOf("off").bytes).toBeLessThan(410);
    expect(Object.keys(extensionsOf("off").extensions)).toEqual(["bazaar"]);
  });

  test.each([
    ["schemas go first", { description: "x".repeat(2_000) }, ["bazaar", "payment-identifier"]],
    ["then the bazaar", { example: "x".repeat(2_000) }, ["payment-identifier"]],
  ])("leaves out what makes it too long: %s", (_, said, names) => {
    for (const use of ["optional", "required"] as const) {
      const { extensions, bytes } = extensionsOf(use, said);
      expect(Object.keys(extensions)).toEqual(names);
      for (const name of names) expect(extensions[name]).not.toHaveProperty("schema");
      expect(extensions["payment-identifier"].info).toEqual({ required: use === "required" });
      expect(bytes).toBeLessThan(3_250);
    }
  });

  test("says what is required however long it is, and nothing else then", () => {
    const many = Array.from({ length: 12 }, () => evm);
    const said = (["optional", "required"] as const).map((identifier) => {
      const [, quote = ""] = new Offers(many, undefined, { identifier }).quoteLines(PAY, URL);
      return Object.keys(JSON.parse(atob(quote)).extensions ?? {});
    });
    expect(said).toEqual([[], ["payment-identifier"]]);
  });
});
