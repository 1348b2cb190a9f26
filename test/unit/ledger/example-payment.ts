import { paymentKey, type PaymentKey } from "../../../src/x402/payment-key.ts";
import type { FacilitatorRequest } from "../../../src/x402/x402.ts";

export interface ExamplePayment {
  readonly key: PaymentKey;
  readonly request: FacilitatorRequest;
}

export const PAYER = "0x857b06519E91e3A54538791bDbb0E22373e36b66";

/** A payment that differs from the other numbers' in its nonce only. */
export function examplePayment(number: number): ExamplePayment {
  const request: FacilitatorRequest = {
    paymentPayload: {
      x402Version: 1,
      scheme: "exact",
      network: "base-sepolia",
      payload: {
        signature: `0x${"ab".repeat(65)}`,
        authorization: {
          from: PAYER,
          to: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
          value: "10000",
          validAfter: "1740672089",
          validBefore: "1740672154",
          nonce: `0x${number.toString(16).padStart(64, "0")}`,
        },
      },
    },
    paymentRequirements: {
      scheme: "exact",
      network: "base-sepolia",
      maxAmountRequired: "10000",
      asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
      payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
      resource: "https://api.example.com/premium-data",
      description: "Premium data",
      mimeType: "application/json",
      maxTimeoutSeconds: 60,
      extra: { name: "USDC", version: "2" },
    },
  };
  const key = paymentKey(request);
  if (!key.ok) throw new Error(key.error.detail);
  return { key: key.value, request };
}
