import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isEvmPayload, payerOf, paymentKey, samePayment } from "../../../src/x402/payment-key.ts";
import { parseFacilitatorRequest } from "../../../src/x402/schema.ts";
import type { FacilitatorRequest } from "../../../src/x402/x402.ts";
import { exampleRequest } from "./example-request.ts";

type Example = ReturnType<typeof exampleRequest>;

function keyOf(request: FacilitatorRequest): string {
  const key = paymentKey(request);
  return key.ok ? key.value : key.error.code;
}

/** The key of the example after a change. */
function changed(change: (request: Example) => void): string {
  const request = exampleRequest();
  change(request);
  return keyOf(request);
}

const original = keyOf(exampleRequest());

describe("a payment's key", () => {
  it("is network, asset, payer and nonce in lower case", () => {
    expect(original).toBe(
      "base-sepolia/0x036cbd53842c5426634e7929541ec2318f3dcf7e/" +
        "0x857b06519e91e3a54538791bdbb0e22373e36b66/" +
        "0xf3746613c2d920b5fdabc0856f2aeb2d4f88ee6037b8cc5d04a71a4462f13480",
    );
  });

  it("is the same whatever the letter case of addresses and nonce", () => {
    const key = changed(({ paymentPayload, paymentRequirements }) => {
      const { authorization } = paymentPayload.payload;
      authorization.from = authorization.from.toLowerCase();
      authorization.nonce = `0x${authorization.nonce.slice(2).toUpperCase()}`;
      paymentRequirements.asset = paymentRequirements.asset.toLowerCase();
    });
    expect(key).toBe(original);
  });

  it.each<[string, (request: Example) => void]>([
    ["signature", ({ paymentPayload }) => (paymentPayload.payload.signature = "0x00")],
    ["price", ({ paymentRequirements }) => (paymentRequirements.maxAmountRequired = "1")],
    ["resource", ({ paymentRequirements }) => (paymentRequirements.resource = "https://a.b/c")],
    ["amount", ({ paymentPayload }) => (paymentPayload.payload.authorization.value = "9")],
  ])("is the same with another %s", (_, change) => {
    expect(changed(change)).toBe(original);
  });

  it.each<[string, (request: Example) => void]>([
    ["network", ({ paymentPayload }) => (paymentPayload.network = "base")],
    ["asset", ({ paymentRequirements }) => (paymentRequirements.asset = `0x${"1".repeat(40)}`)],
    [
      "payer",
      ({ paymentPayload }) => (paymentPayload.payload.authorization.from = `0x${"1".repeat(40)}`),
    ],
    [
      "nonce",
      ({ paymentPayload }) => (paymentPayload.payload.authorization.nonce = `0x${"1".repeat(64)}`),
    ],
  ])("is another one with another %s", (_, change) => {
    expect(changed(change)).not.toBe(original);
  });

  it.each([
    ["an unknown network", "exact", "nowhere", "invalid_network"],
    ["Solana", "exact", "solana", "invalid_network"],
    ["an unknown scheme", "upto", "base", "unsupported_scheme"],
  ])("does not exist for %s, whatever the payload imitates", (_, scheme, network, code) => {
    const payload = fc.record({ signature: fc.jsonValue(), authorization: fc.jsonValue() });
    fc.assert(
      fc.property(payload, (imitation) => {
        const { paymentRequirements } = exampleRequest();
        const paymentPayload = { x402Version: 1, scheme, network, payload: imitation };
        expect(keyOf({ paymentPayload, paymentRequirements })).toBe(code);
      }),
    );
  });
});

/** Whether the example and the example after a change are the same payment, asked both ways. */
function same(change: (payment: Example["paymentPayload"]) => void): boolean {
  const [{ paymentPayload: left }, { paymentPayload: right }] = [
    exampleRequest(),
    exampleRequest(),
  ];
  change(right);
  expect(samePayment(right, left)).toBe(samePayment(left, right));
  return samePayment(left, right);
}

const shout = (hex: string): string => `0x${hex.slice(2).toUpperCase()}`;

describe("two payments", () => {
  it("are the same whatever the letter case of addresses, nonce and signature", () => {
    expect(same(() => undefined)).toBe(true);
    const loud = same(({ payload }) => {
      const { from, to, nonce } = payload.authorization;
      Object.assign(payload.authorization, {
        from: shout(from),
        to: shout(to),
        nonce: shout(nonce),
      });
      payload.signature = shout(payload.signature);
    });
    expect(loud).toBe(true);
  });

  it.each<[string, (payment: Example["paymentPayload"]) => void]>([
    ["network", (payment) => (payment.network = "base")],
    ["signature", ({ payload }) => (payload.signature = `0x${"cd".repeat(65)}`)],
    ["payer", ({ payload }) => (payload.authorization.from = `0x${"1".repeat(40)}`)],
    ["payee", ({ payload }) => (payload.authorization.to = `0x${"1".repeat(40)}`)],
    ["nonce", ({ payload }) => (payload.authorization.nonce = `0x${"1".repeat(64)}`)],
    ["amount", ({ payload }) => (payload.authorization.value = "9")],
    ["start", ({ payload }) => (payload.authorization.validAfter = "9")],
    ["end", ({ payload }) => (payload.authorization.validBefore = "9")],
  ])("are two with another %s", (_, change) => {
    expect(same(change)).toBe(false);
  });

  it.each([
    ["on Solana", "exact", "solana"],
    ["on an unknown network", "exact", "nowhere"],
    ["of an unknown scheme", "upto", "base-sepolia"],
  ])("are never the same %s, whatever the payload imitates", (_, scheme, network) => {
    const { payload } = exampleRequest().paymentPayload;
    const payloads = fc.oneof(
      fc.constant(payload),
      fc.record({ signature: fc.jsonValue(), authorization: fc.jsonValue() }),
      fc.record({ transaction: fc.string() }),
    );
    fc.assert(
      fc.property(payloads, (each) => {
        const payment = { x402Version: 1, scheme, network, payload: each };
        expect(samePayment(payment, payment)).toBe(false);
      }),
    );
  });
});

describe("the payer of a payment", () => {
  it("is the one that the authorization names, as it is spelled", () => {
    expect(payerOf(exampleRequest().paymentPayload)).toBe(
      "0x857b06519E91e3A54538791bDbb0E22373e36b66",
    );
  });

  it("is empty where the payload names no address, and nothing else is repeated", () => {
    const { paymentPayload } = exampleRequest();
    const strange = [null, 1, "x", [], {}, { from: 1 }, { from: null }, { from: "<script>" }];
    for (const authorization of strange) {
      expect(payerOf({ ...paymentPayload, payload: { authorization } })).toBe("");
    }
    expect(payerOf({ ...paymentPayload, payload: { transaction: "AA==" } })).toBe("");
    expect(payerOf({ ...paymentPayload, payload: {} })).toBe("");
  });
});

describe("the kind of a parsed payload", () => {
  it("is told by its members", () => {
    expect(isEvmPayload(exampleRequest().paymentPayload.payload)).toBe(true);
    const solana = exampleRequest();
    const paymentPayload = {
      ...solana.paymentPayload,
      network: "solana",
      payload: { ...solana.paymentPayload.payload, transaction: "AA==" },
    };
    const request = parseFacilitatorRequest({ ...solana, paymentPayload });
    expect(request.ok && isEvmPayload(request.value.paymentPayload.payload)).toBe(false);
  });
});
