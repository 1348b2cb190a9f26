import * as fc from "fast-check";
import { MAX_UINT256 } from "../../../src/x402/amount.ts";
import type { PaymentPayload } from "../../../src/x402/x402.ts";

/** A body of `/verify` and `/settle` as JSON gives it, free to be spoilt. */
export function exampleRequest() {
  return {
    x402Version: 1,
    paymentPayload: {
      x402Version: 1,
      scheme: "exact",
      network: "base-sepolia",
      payload: {
        signature: `0x${"2d".repeat(65)}`,
        authorization: {
          from: "0x857b06519E91e3A54538791bDbb0E22373e36b66",
          to: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
          value: "10000",
          validAfter: "1740672089",
          validBefore: "1740672154",
          nonce: "0xf3746613c2d920b5fdabc0856f2aeb2d4f88ee6037b8cc5d04a71a4462f13480",
        },
      },
    },
    paymentRequirements: {
      scheme: "exact",
      network: "base-sepolia",
      maxAmountRequired: "10000",
      resource: "https://api.example.com/premium-data",
      description: "Access to premium market data",
      mimeType: "application/json",
      outputSchema: { input: { type: "http", method: "GET" } },
      payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
      maxTimeoutSeconds: 60,
      asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
      extra: { name: "USDC", version: "2" },
    },
  };
}

const hex = (bytes: number): fc.Arbitrary<string> =>
  fc
    .uint8Array({ minLength: bytes, maxLength: bytes })
    .map((each) => `0x${Buffer.from(each).toString("hex")}`);
const uint256 = fc.bigInt({ min: 0n, max: MAX_UINT256 }).map(String);

/** Any payment that has the shape of protocol section 2.2. */
export const anyPayment: fc.Arbitrary<PaymentPayload> = fc.oneof(
  fc.record({
    x402Version: fc.constant(1),
    scheme: fc.constant("exact"),
    network: fc.constantFrom("base", "base-sepolia", "peaq", "sei"),
    payload: fc.record({
      signature: fc.integer({ min: 0, max: 400 }).chain(hex),
      authorization: fc.record({
        from: hex(20),
        to: hex(20),
        value: uint256,
        validAfter: uint256,
        validBefore: uint256,
        nonce: hex(32),
      }),
    }),
  }),
  fc.record({
    x402Version: fc.constant(1),
    scheme: fc.constant("exact"),
    network: fc.constantFrom("solana", "solana-devnet"),
    payload: fc.record({
      transaction: fc
        .uint8Array({ minLength: 1, maxLength: 1232 })
        .map((bytes) => Buffer.from(bytes).toString("base64")),
    }),
  }),
  // Opaque: of another scheme or network, kept as it came.
  fc.record({
    x402Version: fc.constant(1),
    scheme: fc.constantFrom("upto", "exäct", ""),
    network: fc.constantFrom("base", "eip155:8453", "nirgendwo"),
    payload: fc.dictionary(
      fc.string({ unit: "grapheme", maxLength: 10 }).filter((name) => name !== "__proto__"),
      fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.parse(JSON.stringify(value)) as unknown),
      { maxKeys: 5, noNullPrototype: true },
    ),
  }),
);
