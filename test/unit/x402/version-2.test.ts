import { sanitizeResourceServiceMetadata } from "@x402/extensions";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  decodePaymentSignatureHeader,
  encodePaymentResponseHeader,
  encodePaymentSignatureHeader,
} from "@x402/core/http";
import { parsePaymentPayload as parsedOfficially } from "@x402/core/schemas";
import {
  decodeEnvelope,
  encodeHeaderJson,
  encodeSettlementHeader,
} from "../../../src/x402/header.ts";
import { NETWORK_NAMES, networkOf } from "../../../src/x402/network.ts";
import { parseFacilitatorRequest, parseStoredRequest } from "../../../src/x402/schema.ts";
import {
  mismatchOf,
  PAYMENT_FLOW,
  paymentV2,
  requirementsOf,
  requirementsV2,
  resourceV2,
  serviceOf,
} from "../../../src/x402/version-2.ts";
import { samePayment } from "../../../src/x402/payment-key.ts";
import { examplePayment } from "../ledger/example-payment.ts";

const { request } = examplePayment(1);
const { paymentRequirements: offer, paymentPayload } = request;
const envelope = paymentV2(request);
const wire = { paymentPayload: envelope, paymentRequirements: requirementsV2(offer, PAYMENT_FLOW) };

function refusal(body: unknown): string {
  const result = parseFacilitatorRequest(body);
  return result.ok ? "ok" : `${result.error.version} ${result.error.status} ${result.error.code}`;
}

describe("a payment in the envelope of version 2", () => {
  test("is one that the official package takes, and is read back as it was", () => {
    expect(parsedOfficially(envelope)).toMatchObject({ success: true });
    const header = encodePaymentSignatureHeader(envelope as never);
    expect(decodePaymentSignatureHeader(encodeHeaderJson(envelope))).toEqual(envelope);
    const read = decodeEnvelope(header, 2);
    expect(read).toEqual({
      ok: true,
      value: { payment: { ...paymentPayload, x402Version: 2 }, accepted: envelope.accepted },
    });
    expect(read.ok && samePayment(read.value.payment, paymentPayload)).toBe(true);
  });

  test("is refused in the other version's header", () => {
    const code = (header: object, version: 1 | 2) => {
      const read = decodeEnvelope(encodeHeaderJson(header), version);
      return read.ok ? "ok" : read.error.code;
    };
    expect(code(envelope, 1)).toBe("invalid_x402_version");
    expect(code(paymentPayload, 2)).toBe("invalid_x402_version");
    expect(code(paymentPayload, 1)).toBe("ok");
    expect(code({ ...envelope, accepted: undefined }, 2)).toBe("invalid_payload");
    expect(code({ ...envelope, extensions: 5 }, 2)).toBe("invalid_payload");
  });

  test("may have null where something is optional, and a resource that nobody can read", () => {
    for (const odd of [{ resource: null, extensions: null }, { resource: 5 }, { resource: [] }]) {
      const read = decodeEnvelope(encodeHeaderJson({ ...envelope, ...odd }), 2);
      expect(read).toMatchObject({ ok: true });
    }
    const accepted = { ...envelope.accepted, extra: null };
    const read = decodeEnvelope(encodeHeaderJson({ ...envelope, accepted }), 2);
    expect(read.ok && read.value.accepted).not.toHaveProperty("extra");
  });

  test.each(NETWORK_NAMES)("names the network %s in CAIP-2", (name) => {
    const { network } = requirementsV2({ ...offer, network: name });
    expect(network).toBe(networkOf(name).caip2);
    expect(requirementsOf({ ...wire.paymentRequirements, network }, { url: "" }).network).toBe(
      name,
    );
  });
});

describe("a call of a facilitator in version 2", () => {
  test("is read as the same request in version 1, with its own version", () => {
    const read = parseFacilitatorRequest({ x402Version: 2, ...wire });
    const extra = { ...offer.extra, ...PAYMENT_FLOW };
    const { outputSchema: _, ...rest } = offer;
    expect(read).toEqual({
      ok: true,
      value: {
        paymentPayload: { ...paymentPayload, x402Version: 2 },
        paymentRequirements: { ...rest, extra },
      },
    });
    expect(read.ok && parseStoredRequest(JSON.parse(JSON.stringify(read.value)))).toEqual(read);
  });

  test.each([
    ["no accepted", { paymentPayload: { ...envelope, accepted: null } }, "2 400 invalid_payload"],
    ["another version beside it", { x402Version: 1 }, "1 200 invalid_x402_version"],
    ["a version that is no number", { x402Version: "2" }, "2 400 invalid_payload"],
    ["no requirements", { paymentRequirements: null }, "2 400 invalid_payment_requirements"],
    [
      "requirements of version 1",
      { paymentRequirements: offer },
      "2 400 invalid_payment_requirements",
    ],
    [
      "a network's name of version 1",
      { paymentRequirements: { ...wire.paymentRequirements, network: offer.network } },
      "2 200 invalid_network",
    ],
    [
      "such a name in what was accepted",
      {
        paymentPayload: { ...envelope, accepted: { ...envelope.accepted, network: offer.network } },
      },
      "2 200 invalid_network",
    ],
    [
      "a version that is none",
      { paymentPayload: { ...envelope, x402Version: 3 } },
      "1 200 invalid_x402_version",
    ],
    [
      "a payment of version 1 that says 2",
      { paymentPayload: { ...paymentPayload, x402Version: 2 } },
      "1 200 invalid_x402_version",
    ],
    [
      "a network that nobody knows",
      {
        paymentPayload: { ...envelope, accepted: { ...envelope.accepted, network: "eip155:999" } },
      },
      "ok",
    ],
  ])("with %s", (_, spoilt, expected) => {
    expect(refusal({ ...wire, ...spoilt })).toBe(expected);
  });
});

describe("what a buyer has accepted", () => {
  const { accepted } = envelope;

  test("is the offer, in any letter case of addresses, with whatever it adds to extra", () => {
    const extra = { ...accepted.extra, more: [1], recentBlockhash: "x" };
    const spelled = { ...accepted, payTo: accepted.payTo.toLowerCase(), extra };
    expect(mismatchOf(spelled, offer)).toBeUndefined();
  });

  test.each([
    ["scheme", { scheme: "upto" }],
    ["network", { network: "eip155:1" }],
    ["network", { network: offer.network }],
    ["amount", { amount: String(BigInt(accepted.amount) + 1n) }],
    ["amount", { amount: `0${accepted.amount}` }],
    ["asset", { asset: accepted.payTo }],
    ["payTo", { payTo: accepted.asset }],
    ["maxTimeoutSeconds", { maxTimeoutSeconds: accepted.maxTimeoutSeconds + 1 }],
    ["extra.name", { extra: { ...accepted.extra, name: "other" } }],
    ["extra.paymentFlow", { extra: offer.extra ?? {} }],
  ])("is another where its %s is", (member, spoilt) => {
    expect(mismatchOf({ ...accepted, ...spoilt }, offer)).toBe(member);
  });
});

describe("a receipt", () => {
  const settled = {
    success: true,
    transaction: "0x12",
    network: "base-sepolia",
    payer: "0x34",
  } as const;

  test("is in the words of its version", () => {
    const written = encodeSettlementHeader(settled, 2);
    expect(written).toBe(encodePaymentResponseHeader({ ...settled, network: "eip155:84532" }));
    const code = "invalid_exact_evm_payload_authorization_value";
    const failed = {
      ...settled,
      success: false,
      transaction: "",
      errorReason: code,
      detail: "é",
    } as const;
    const json: unknown = JSON.parse(
      Buffer.from(encodeSettlementHeader(failed, 2), "base64").toString(),
    );
    expect(json).toEqual({
      success: false,
      transaction: "",
      network: "eip155:84532",
      payer: "0x34",
      errorReason: `${code}_mismatch`,
      errorMessage: "é",
    });
  });

  test("has no text where there is none", () => {
    expect(resourceV2({ resource: "https://x/", description: "", mimeType: "" })).toEqual({
      url: "https://x/",
    });
  });
});

describe("what is said of the service behind a resource", () => {
  test("is what its route says, else the seller's name", () => {
    const metadata = { provider: "Acme", category: "weather", tags: ["a", "Weather"] };
    expect(serviceOf(metadata, "Shop")).toEqual({ serviceName: "Acme", tags: ["a", "Weather"] });
    expect(serviceOf({ category: "weather", provider: 7 }, "Shop")).toEqual({
      serviceName: "Shop",
      tags: ["weather"],
    });
    expect(serviceOf({ tags: "one" }, "")).toEqual({ tags: ["one"] });
    expect(serviceOf({ provider: "é" }, "x".repeat(33))).toEqual({});
  });

  test("is what official catalogues keep of it", () => {
    const word = fc.oneof(
      fc.string({ maxLength: 34, unit: "binary-ascii" }),
      fc.constantFrom("a", "A", "b"),
      fc.string(),
    );
    const tags = fc.array(fc.oneof(word, fc.jsonValue({ maxDepth: 1 })), { maxLength: 9 });
    fc.assert(
      fc.property(tags, word, word, (tags, category, brand) => {
        const all = [...tags, category];
        // The official types take what the official rules then drop.
        const resource = { url: "https://a.example", serviceName: brand, tags: all as string[] };
        const kept = sanitizeResourceServiceMetadata(resource);
        expect(serviceOf({ tags, category }, brand)).toEqual(kept);
      }),
    );
  });
});
