import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { exact } from "x402/schemes";
import { decodeXPaymentResponse } from "x402/shared";
import { settleResponseFromHeader } from "x402/types";
import { ERROR_CODES } from "../../../src/x402/error-code.ts";
import {
  decodePaymentHeader,
  encodePaymentHeader,
  encodeSettlementHeader,
  MAX_PAYMENT_HEADER_BYTES,
} from "../../../src/x402/header.ts";
import type { PaymentPayload, SettleResponse } from "../../../src/x402/x402.ts";
import { anyPayment, exampleRequest } from "./example-request.ts";

const payment: PaymentPayload = exampleRequest().paymentPayload;

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64");
}

/** `ok`, or the code of the refusal. */
function decoded(header: string): string {
  const result = decodePaymentHeader(header);
  return result.ok ? "ok" : result.error.code;
}

describe("an X-PAYMENT header", () => {
  it("decodes to the payment that was encoded, for every payment", () => {
    fc.assert(
      fc.property(anyPayment, (each) => {
        expect(decodePaymentHeader(encodePaymentHeader(each))).toEqual({ ok: true, value: each });
      }),
      { numRuns: 1000 },
    );
  });

  it("may be padded or not, of the standard alphabet or the URL-safe one", () => {
    fc.assert(
      fc.property(anyPayment, (each) => {
        const standard = encodePaymentHeader(each);
        const bare = standard.replace(/=+$/, "");
        const urlSafe = standard.replaceAll("+", "-").replaceAll("/", "_");
        for (const form of [bare, urlSafe, urlSafe.replace(/=+$/, ""), ` ${standard}\t`]) {
          expect(decodePaymentHeader(form)).toEqual({ ok: true, value: each });
        }
      }),
    );
  });

  it("is read as the official version 1 client writes it", () => {
    const official = exact.evm.encodePayment({
      x402Version: 1,
      scheme: "exact",
      network: "base-sepolia",
      payload: exampleRequest().paymentPayload.payload,
    });
    expect(decodePaymentHeader(official)).toEqual({ ok: true, value: payment });
  });

  it("may hold its members in any order, and unknown ones, which are dropped", () => {
    const { payload, ...rest } = exampleRequest().paymentPayload;
    const { signature, authorization } = payload;
    const shuffled = {
      extra: [1],
      payload: { memo: "x", authorization: { ...authorization, chainId: 1 }, signature },
      ...rest,
    };
    expect(decodePaymentHeader(encode(shuffled))).toEqual({ ok: true, value: payment });
  });

  it.each([
    ["nothing", ""],
    ["white space", "  \t "],
    ["text outside the alphabets", "not base64!"],
    ["both alphabets", "ab+/-_=="],
    ["padding only", "=="],
    ["padding in the middle", "eyJ4=NDAy"],
    ["too much padding", "eyJ4NDAy==="],
    ["a lone base64 character", "A"],
    ["raw JSON", JSON.stringify(payment)],
    ["base64 of nothing but text", Buffer.from("hello").toString("base64")],
    ["base64 of a truncated JSON text", encodePaymentHeader(payment).slice(0, -40)],
    ["base64 of invalid UTF-8", Buffer.from([0x22, 0xff, 0x22]).toString("base64")],
    ["base64 of UTF-16", Buffer.from(JSON.stringify(payment), "utf16le").toString("base64")],
    ["a number", encode(1)],
    ["null", encode(null)],
    ["a string", encode("exact")],
    ["an array", encode([payment])],
    ["an empty object", encode({})],
    ["deeply nested arrays", Buffer.from("[".repeat(12_000)).toString("base64")],
    [
      "deeply nested closed arrays",
      Buffer.from("[".repeat(8000) + "]".repeat(8000)).toString("base64"),
    ],
  ])("is refused as invalid_payload with %s", (_, header) => {
    expect(decoded(header)).toBe("invalid_payload");
  });

  it.each([0, 2, -1, 1.5, 1e300])(
    "is refused as invalid_x402_version with version %d",
    (version) => {
      expect(decoded(encode({ ...payment, x402Version: version }))).toBe("invalid_x402_version");
    },
  );

  it("may decode to 16 KiB and no more", () => {
    const opaque = { ...payment, scheme: "other", payload: { pad: "" } };
    const room = MAX_PAYMENT_HEADER_BYTES - JSON.stringify(opaque).length;
    const sized = (pad: number) => encode({ ...opaque, payload: { pad: "x".repeat(pad) } });
    expect(MAX_PAYMENT_HEADER_BYTES).toBe(16_384);
    expect(decoded(sized(room))).toBe("ok");
    expect(decoded(sized(room + 1))).toBe("invalid_payload");
    expect(decoded(sized(room + 100))).toBe("invalid_payload");
    expect(decoded("A".repeat(10_000_000))).toBe("invalid_payload");
  });

  it("never throws, whatever text it is", () => {
    const text = fc.oneof(
      fc.string({ unit: "binary", maxLength: 300 }),
      fc.base64String({ maxLength: 400 }),
      fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes).toString("base64")),
      fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes).toString("latin1")),
    );
    fc.assert(
      fc.property(text, (header) => {
        const result = decodePaymentHeader(header);
        expect(result.ok || result.error.code === "invalid_payload").toBe(true);
      }),
      { numRuns: 3000 },
    );
  });

  it("never throws, whatever JSON it carries, and is refused with one of the codes", () => {
    const members = fc.record(
      {
        x402Version: fc.oneof(fc.constant(1), fc.jsonValue()),
        scheme: fc.oneof(fc.constant("exact"), fc.jsonValue()),
        network: fc.oneof(fc.constantFrom("base", "solana", "toString"), fc.jsonValue()),
        payload: fc.oneof(
          fc.jsonValue(),
          fc.record(
            {
              signature: fc.jsonValue(),
              transaction: fc.jsonValue(),
              authorization: fc.dictionary(
                fc.constantFrom("from", "to", "value", "nonce", "__proto__", "constructor"),
                fc.jsonValue(),
              ),
            },
            { requiredKeys: [] },
          ),
        ),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), members), (value) => {
        const code = decoded(encode(value));
        expect(["ok", "invalid_payload", "invalid_x402_version"]).toContain(code);
      }),
      { numRuns: 3000 },
    );
  });

  it("is refused without repeating what it holds", () => {
    const secret = "0x5ec4e7";
    const spoilt = { ...payment, payload: { signature: secret, authorization: { from: secret } } };
    const result = decodePaymentHeader(encode(spoilt));
    expect(result.ok ? "" : result.error.detail).not.toContain(secret);
  });
});

describe("an X-PAYMENT-RESPONSE header", () => {
  const text = fc.string({ unit: "binary", maxLength: 80 });
  const response: fc.Arbitrary<SettleResponse> = fc.oneof(
    fc.record({ success: fc.constant(true), transaction: text, network: text, payer: text }),
    fc.record(
      {
        success: fc.constant(false),
        errorReason: fc.constantFrom(...ERROR_CODES),
        transaction: fc.constant(""),
        network: text,
        payer: text,
        detail: text,
      },
      { requiredKeys: ["success", "errorReason", "transaction", "network", "payer"] },
    ),
  );

  it("decodes with atob to the response that was encoded, for every response", () => {
    fc.assert(
      fc.property(response, (each) => {
        const header = encodeSettlementHeader(each);
        expect(header).toMatch(/^[A-Za-z0-9+/]+={0,2}$/);
        const json = atob(header);
        expect(json).toMatch(/^[\u0020-\u007e]+$/);
        expect(JSON.parse(json)).toEqual(each);
      }),
      { numRuns: 2000 },
    );
  });

  it("is ASCII, so that atob does not garble it", () => {
    const detail = "naïve 🦊 \u2028 \u007f \ud800";
    const header = encodeSettlementHeader({
      success: false,
      errorReason: "invalid_payload",
      transaction: "",
      network: "base",
      payer: "",
      detail,
    });
    expect(JSON.parse(atob(header))).toHaveProperty("detail", detail);
  });

  it("is read by the official version 1 clients", () => {
    const settled: SettleResponse = {
      success: true,
      transaction: `0x${"ab".repeat(32)}`,
      network: "base-sepolia",
      payer: "0x857b06519E91e3A54538791bDbb0E22373e36b66",
    };
    expect(decodeXPaymentResponse(encodeSettlementHeader(settled))).toEqual(settled);
    expect(settleResponseFromHeader(encodeSettlementHeader(settled))).toEqual(settled);
  });
});
