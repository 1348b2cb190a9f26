import type { FacilitatorRequest } from "../../../../src/x402/x402.ts";

/** As answers spell it: EIP-55. */
export const PAYER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
export const TRANSACTION = `0x${"ab".repeat(32)}`;

/** A payment in the right shape, which nobody signed: for facilitators that do not look. */
export const exampleRequest: FacilitatorRequest = {
  paymentPayload: {
    x402Version: 1,
    scheme: "exact",
    network: "base-sepolia",
    payload: {
      signature: `0x${"11".repeat(65)}`,
      authorization: {
        from: PAYER,
        to: "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
        value: "10000",
        validAfter: "1700000000",
        validBefore: "1700000060",
        nonce: `0x${"22".repeat(32)}`,
      },
    },
  },
  paymentRequirements: {
    scheme: "exact",
    network: "base-sepolia",
    maxAmountRequired: "10000",
    asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
    payTo: "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
    resource: "https://shop.example/weather",
    description: "weather",
    maxTimeoutSeconds: 60,
  },
};
