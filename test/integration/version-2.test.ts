/** Buyers of either version at one gateway: who buys, in which envelope, and that a payment is one in both. */
import { validateDiscoveryExtension } from "@x402/extensions/bazaar";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { encodeHeaderJson } from "../../src/x402/header.ts";
import { X402_VERSION_2, type PaymentRequirements } from "../../src/x402/x402.ts";
import { paymentV2 } from "../../src/x402/version-2.ts";
import { headerJson, present, PURSE, quote, richBuyer } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { evmClients, evmClientsOfVersion1Alone } from "../support/evm-clients.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { signPayment, type FreshAccount } from "../support/payer.ts";

const closing = new AsyncDisposableStack();
let chain: Chain;
let gateway: RunningGateway;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  gateway = closing.use(await startGateway({ chain, more: "cors: true" }));
});

afterAll(() => closing.disposeAsync());

const CAIP2 = "eip155:84532";
const weather = () => `${gateway.url}/weather?city=Oslo`;

/** A payment for a URL in both envelopes. */
async function signBoth(
  buyer: FreshAccount,
  url: string,
  change: (requirements: PaymentRequirements) => PaymentRequirements = (same) => same,
) {
  const requirements = await quote(url);
  const payment = await signPayment({ account: buyer.account, requirements: change(requirements) });
  const request = { paymentPayload: payment, paymentRequirements: requirements };
  return { v1: encodeHeaderJson(payment), envelope: paymentV2(request), requirements };
}

async function presentV2(url: string, envelope: object | string, init: RequestInit = {}) {
  const header = typeof envelope === "string" ? envelope : encodeHeaderJson(envelope);
  const answer = await present(url, header, init, X402_VERSION_2);
  return { ...answer, quoted: headerJson(answer.headers, "PAYMENT-REQUIRED") };
}

describe.each(Object.entries(evmClients))("%s", (_, { version, buy }) => {
  test.each([
    ["a GET", "/weather?city=Oslo", undefined, 10_000n],
    ["a POST with its body", "/summarize", { text: "a b c" }, 20_000n],
  ])("buys %s", async (_name, path, body, price) => {
    const buyer = await richBuyer(chain);
    const paidBefore = await chain.balanceOf(gateway.payee);
    const servedBefore = gateway.upstream.length;
    const bought = await buy(gateway.url + path, buyer, body);
    expect(bought).toMatchObject({ status: 200, body: { url: path } });
    const network = version === 1 ? "base-sepolia" : CAIP2;
    expect(bought.receipt).toMatchObject({ success: true, network, payer: buyer.address });
    const { transaction } = bought.receipt;
    const mined = await chain.rpc("eth_getTransactionReceipt", [transaction]);
    expect(mined).toMatchObject({ status: "0x1" });
    expect(await chain.balanceOf(gateway.payee)).toBe(paidBefore + price);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - price);
    const [seen, ...more] = gateway.upstream.slice(servedBefore);
    expect(more).toEqual([]);
    if (body !== undefined) expect(seen?.body).toBe(JSON.stringify(body));
    const names = Object.keys(seen?.headers ?? {});
    expect(names.filter((name) => /^(?:x-)?payment/.test(name))).toEqual([]);
  });
});

describe.each(Object.entries(evmClientsOfVersion1Alone))("%s", (_, buy) => {
  test("throws at a quote of both versions, and buys where version 2 is off", async () => {
    const buyer = await richBuyer(chain);
    await expect(buy(weather(), buyer)).rejects.toThrow(/version: 2/);
    await using older = await startGateway({ chain, more: "protocol: { v2: false }" });
    const bought = await buy(`${older.url}/weather`, buyer);
    expect(bought).toMatchObject({ status: 200, receipt: { network: "base-sepolia" } });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
  });
});

describe("what is asked for", () => {
  test("is in the body as version 1 has it, byte for byte, and in the header as version 2 does", async () => {
    await using older = await startGateway({
      chain,
      more: "cors: true\nprotocol: { v2: false }",
      payee: gateway.payee,
    });
    const [dual, single] = [await fetch(weather()), await fetch(`${older.url}/weather?city=Oslo`)];
    const body = await dual.text();
    expect(body).toBe(await single.text());
    expect(single.headers.has("PAYMENT-REQUIRED")).toBe(false);
    const [offer] = JSON.parse(body).accepts;
    const quoted = headerJson(dual.headers, "PAYMENT-REQUIRED");
    expect(quoted).toEqual({
      x402Version: 2,
      error: "PAYMENT-SIGNATURE header is required",
      resource: {
        url: offer.resource,
        description: offer.description,
        mimeType: offer.mimeType,
      },
      accepts: [
        {
          scheme: "exact",
          network: CAIP2,
          amount: offer.maxAmountRequired,
          asset: offer.asset,
          payTo: offer.payTo,
          maxTimeoutSeconds: offer.maxTimeoutSeconds,
          extra: { ...offer.extra, paymentFlow: "upfront" },
        },
      ],
      extensions: {
        bazaar: quoted.extensions.bazaar,
        "sign-in-with-x": {
          info: expect.objectContaining({ uri: offer.resource.split("?")[0] }),
          supportedChains: [{ chainId: CAIP2, type: "eip191" }],
        },
      },
    });
    expect(validateDiscoveryExtension(quoted.extensions.bazaar)).toEqual({ valid: true });
    expect(dual.headers.get("Access-Control-Expose-Headers")).toBe(
      "PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-PAYMENT-RESPONSE, Retry-After, ETag, Content-Range, Content-Disposition, Link, X-402-Charged, X-402-Credits, X-402-Usage, RateLimit, RateLimit-Policy",
    );
    expect(dual.headers.get("Cache-Control")).toBe("no-store");
  });

  test("stands in the header of pages and of HEAD, too", async () => {
    const page = await request(weather(), { headers: { accept: "text/html" } });
    expect(page.headers["content-type"]).toMatch(/html/);
    expect(page.headers).toHaveProperty("payment-required");
    await page.body.dump();
    const head = await fetch(weather(), { method: "HEAD" });
    expect([head.status, head.headers.has("PAYMENT-REQUIRED")]).toEqual([402, true]);
  });

  test("is in the header alone where version 1 is off, whose payments say nothing there", async () => {
    await using newer = await startGateway({ chain, more: "protocol: { v1: false }" });
    const url = `${newer.url}/weather`;
    const buyer = await richBuyer(chain);
    const answer = await fetch(url);
    expect(answer.status).toBe(402);
    expect(await answer.json()).toEqual({ error: "PAYMENT-SIGNATURE header is required" });
    const page = await request(url, { headers: { accept: "text/html" } });
    expect(page.headers["content-type"]).toMatch(/html/);
    expect(await page.body.text()).toContain("PAYMENT-SIGNATURE");
    const { buy } = evmClients["@x402/fetch 2.27.0 with version 2"] ?? {};
    expect(await buy?.(url, buyer)).toMatchObject({ status: 200 });
    const { v1 } = await signBoth(buyer, weather());
    expect(await present(url, v1)).toMatchObject({ status: 402, receipt: undefined });
  });
});

describe("one payment", () => {
  test("is one in both envelopes, shown 50 times at once", async () => {
    const buyer = await richBuyer(chain);
    const { v1, envelope } = await signBoth(buyer, weather());
    const servedBefore = gateway.upstream.length;
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        index % 2 === 0 ? present(weather(), v1) : presentV2(weather(), envelope),
      ),
    );
    const sold = answers.filter(({ status }) => status === 200);
    expect(sold.length).toBeGreaterThan(0);
    expect(new Set(sold.map(({ receipt }) => receipt?.["transaction"])).size).toBe(1);
    expect(gateway.upstream.length).toBe(servedBefore + 1);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
  });

  test.each([1, 2] as const)(
    "is told again in the other envelope than version %i",
    async (first) => {
      const buyer = await richBuyer(chain);
      const { v1, envelope } = await signBoth(buyer, weather());
      const inV1 = () => present(weather(), v1);
      const inV2 = () => presentV2(weather(), envelope);
      const [one, other] = first === 1 ? [inV1, inV2] : [inV2, inV1];
      const sold = await one();
      const again = await other();
      expect([sold.status, again.status]).toEqual([200, 200]);
      expect(again.text).toBe(sold.text);
      expect(again.receipt).toMatchObject({
        success: true,
        transaction: sold.receipt?.["transaction"],
      });
      expect(again.headers.get("Vary")).toContain(first === 1 ? "PAYMENT-SIGNATURE" : "X-PAYMENT");
      const [mine, theirs] = ["X-PAYMENT-RESPONSE", "PAYMENT-RESPONSE"];
      expect(again.headers.has(first === 1 ? theirs : mine)).toBe(true);
      expect(again.headers.has(first === 1 ? mine : theirs)).toBe(false);
      expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
    },
  );

  test("is of version 2 where both headers are there, whatever the other one holds", async () => {
    const buyer = await richBuyer(chain);
    const { envelope } = await signBoth(buyer, weather());
    const sold = await presentV2(weather(), envelope, { headers: { "X-PAYMENT": "not base64 !" } });
    expect(sold).toMatchObject({ status: 200, receipt: { network: CAIP2 } });
  });
});

describe("a payment of version 2", () => {
  const SPOILT = "invalid_payment_requirements: accepted.";

  test.each([
    ["amount", { amount: "9999" }, `${SPOILT}amount`],
    ["payTo", { payTo: `0x${"1".repeat(40)}` }, `${SPOILT}payTo`],
    ["asset", { asset: `0x${"1".repeat(40)}` }, `${SPOILT}asset`],
    ["maxTimeoutSeconds", { maxTimeoutSeconds: 1 }, `${SPOILT}maxTimeoutSeconds`],
    ["extra", { extra: {} }, `${SPOILT}extra`],
    ["extra, null", { extra: null }, `${SPOILT}extra`],
    ["network", { network: "eip155:8453" }, "invalid_network: "],
    ["network, of version 1", { network: "base-sepolia" }, `${SPOILT}network`],
    ["scheme", { scheme: "upto" }, "invalid_scheme: "],
  ])("for another %s is refused with a fresh quote, in both", async (_, spoilt, expected) => {
    const buyer = await richBuyer(chain);
    const { envelope } = await signBoth(buyer, weather());
    const accepted = { ...envelope.accepted, ...spoilt };
    const refused = await presentV2(weather(), { ...envelope, accepted });
    expect(refused.status).toBe(402);
    expect(refused.quoted).toMatchObject({ x402Version: 2, accepts: [{ network: CAIP2 }] });
    expect(String(refused.quoted?.["error"])).toContain(expected);
    expect(JSON.parse(refused.text)).toMatchObject({ x402Version: 1, accepts: [{}] });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE);
  });

  test("pays the amount exactly; of version 1 it may be of more", async () => {
    const buyer = await richBuyer(chain);
    const more = (offer: PaymentRequirements) => ({ ...offer, maxAmountRequired: "10001" });
    const { v1, envelope } = await signBoth(buyer, weather(), more);
    const refused = await presentV2(weather(), envelope);
    expect(refused.status).toBe(402);
    expect(refused.quoted?.["error"]).toMatch(
      /^invalid_exact_evm_payload_authorization_value_mismatch: the authorization pays more/,
    );
    expect(JSON.parse(refused.text).error).toMatch(
      /^invalid_exact_evm_payload_authorization_value: /,
    );
    expect(await present(weather(), v1)).toMatchObject({ status: 200 });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_001n);
  });

  test("may have more in extra, null where something is optional, and addresses in any case", async () => {
    const buyer = await richBuyer(chain);
    const { envelope } = await signBoth(buyer, weather());
    const { accepted } = envelope;
    const spelled = {
      ...envelope,
      accepted: {
        ...accepted,
        payTo: accepted.payTo.toLowerCase(),
        extra: { ...accepted.extra, mine: 1 },
      },
      resource: null,
      extensions: null,
    };
    expect(await presentV2(weather(), spelled)).toMatchObject({ status: 200 });
  });

  test.each([
    [
      "of version 1",
      (envelope: object) => ({ ...envelope, x402Version: 1 }),
      "invalid_x402_version",
    ],
    [
      "that accepts nothing",
      (envelope: object) => ({ ...envelope, accepted: null }),
      "invalid_payload",
    ],
    ["that is no base64", () => "not base64 !", "invalid_payload"],
  ])("%s is 400 with a fresh quote", async (_, spoil, code) => {
    const buyer = await richBuyer(chain);
    const { envelope } = await signBoth(buyer, weather());
    const refused = await presentV2(weather(), spoil(envelope));
    expect(refused.status).toBe(400);
    expect(String(refused.quoted?.["error"])).toContain(`${code}: `);
    expect(JSON.parse(refused.text).error).toContain(`${code}: `);
  });

  test("is told of a bad signature by its code", async () => {
    const buyer = await richBuyer(chain);
    const { envelope } = await signBoth(buyer, weather());
    const payload = { ...envelope.payload, signature: `0x${"1".repeat(130)}` };
    const refused = await presentV2(weather(), { ...envelope, payload });
    expect(refused.quoted?.["error"]).toMatch(/^invalid_exact_evm_payload_signature: /);
  });

  test("repeats what extensions say, or nothing of it; more may be added, nothing changed", async () => {
    const asked = await fetch(weather());
    const { extensions } = headerJson(asked.headers, "PAYMENT-REQUIRED");
    const { bazaar } = extensions;
    const input = { ...bazaar.info.input, method: "DELETE" };
    const spoilt = { bazaar: { ...bazaar, info: { ...bazaar.info, input } } };
    const buyer = await richBuyer(chain);
    const { envelope } = await signBoth(buyer, weather());
    const refused = await presentV2(weather(), { ...envelope, extensions: spoilt });
    expect(refused.status).toBe(402);
    expect(refused.quoted?.["error"]).toMatch(/^extension_echo_mismatch: /);
    expect(JSON.parse(refused.text).error).toMatch(/^invalid_payload: /);
    const more = { bazaar: { ...bazaar, info: { ...bazaar.info, more: 1 } }, mine: { info: {} } };
    expect(await presentV2(weather(), { ...envelope, extensions: more })).toMatchObject({
      status: 200,
    });
  });
});

describe("a preflight request", () => {
  test("allows the headers of both versions", async () => {
    const response = await fetch(weather(), {
      method: "OPTIONS",
      headers: {
        Origin: "https://app.example",
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "payment-signature,access-control-expose-headers",
      },
    });
    expect(response.status).toBe(204);
    const allowed = response.headers.get("Access-Control-Allow-Headers") ?? "";
    for (const name of ["X-PAYMENT", "PAYMENT-SIGNATURE", "SIGN-IN-WITH-X", "Content-Type"]) {
      expect(allowed.split(", ")).toContain(name);
    }
  });
});
