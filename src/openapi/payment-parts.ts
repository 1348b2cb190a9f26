/**
 * What an OpenAPI document says of payment: the header as a security scheme, the 402 answer, the receipt,
 * and `x-payment-info`, by which programs that read such documents find what an operation costs.
 */
import { formatAmount } from "../x402/amount.ts";
import { findNetwork } from "../x402/network.ts";
import { X402_VERSION, type PaymentRequirements } from "../x402/x402.ts";
import type { DescriptionValues } from "./description.ts";

/** Names of our parts among a document's components: no description of a backend has a reason to use them. */
const SCHEME = "x402Payment";
const REQUIRED = "X402PaymentRequired";
const REQUIREMENTS = "X402PaymentRequirements";
const RECEIPT = "X402PaymentResponse";

/** The security requirement of whatever is paid for. */
export const PAID: readonly DescriptionValues[] = [{ [SCHEME]: [] }];
export const REQUIRED_RESPONSE: DescriptionValues = { $ref: `#/components/responses/${REQUIRED}` };
export const RECEIPT_HEADER: DescriptionValues = {
  "X-PAYMENT-RESPONSE": { $ref: `#/components/headers/${RECEIPT}` },
};

const text = { type: "string" } as const;

const REQUIREMENTS_SCHEMA = {
  type: "object",
  required: [
    "scheme",
    "network",
    "maxAmountRequired",
    "asset",
    "payTo",
    "resource",
    "description",
    "maxTimeoutSeconds",
  ],
  properties: {
    scheme: { const: "exact" },
    network: { ...text, description: "The network that the payment is made on." },
    maxAmountRequired: { ...text, pattern: "^[0-9]+$", description: "Atomic units of the token." },
    asset: { ...text, description: "Address of the token." },
    payTo: { ...text, description: "Who is paid." },
    resource: { ...text, format: "uri" },
    description: text,
    mimeType: text,
    outputSchema: { type: "object" },
    maxTimeoutSeconds: { type: "integer" },
    extra: {
      type: "object",
      description: "What signing needs: EIP-712 domain, or Solana fee payer.",
    },
  },
};

const REQUIRED_SCHEMA = {
  type: "object",
  required: ["x402Version", "error", "accepts"],
  properties: {
    x402Version: { const: X402_VERSION },
    error: text,
    accepts: { type: "array", items: { $ref: `#/components/schemas/${REQUIREMENTS}` } },
  },
};

/** A document's components with ours among them. */
export function withPaymentParts(components: DescriptionValues): DescriptionValues {
  const kind = (name: string): object => Object(components[name]);
  return {
    ...components,
    securitySchemes: {
      ...kind("securitySchemes"),
      [SCHEME]: {
        type: "apiKey",
        in: "header",
        name: "X-PAYMENT",
        description:
          "A signed payment (x402 version 1): base64 of JSON with x402Version, scheme, network and payload. " +
          "Ask without it first; the 402 answer lists the ways to pay.",
      },
    },
    schemas: {
      ...kind("schemas"),
      [REQUIRED]: REQUIRED_SCHEMA,
      [REQUIREMENTS]: REQUIREMENTS_SCHEMA,
    },
    headers: {
      ...kind("headers"),
      [RECEIPT]: {
        description:
          "The receipt: base64 of JSON with success, transaction, network and payer of the settlement.",
        schema: text,
      },
    },
    responses: {
      ...kind("responses"),
      [REQUIRED]: {
        description: "Payment is required, or the payment that was sent is refused.",
        content: { "application/json": { schema: { $ref: `#/components/schemas/${REQUIRED}` } } },
      },
    },
  };
}

/** `price` is there where one of the ways to pay is in its network's own stablecoin, whose unit is a dollar. */
export function paymentInfo(accepts: readonly PaymentRequirements[]): DescriptionValues {
  const amount = accepts.map(dollarsOf).find((dollars) => dollars !== undefined);
  const ways = accepts.map(({ scheme, network, maxAmountRequired, asset, payTo }) => {
    return { scheme, network, maxAmountRequired, asset, payTo };
  });
  return {
    ...(amount === undefined ? {} : { price: { mode: "fixed", currency: "USD", amount } }),
    protocols: [{ x402: { version: X402_VERSION, accepts: ways } }],
  };
}

function dollarsOf({ network, asset, maxAmountRequired }: PaymentRequirements): string | undefined {
  const usual = findNetwork(network)?.asset;
  if (usual === undefined || usual.address.toLowerCase() !== asset.toLowerCase()) return undefined;
  return formatAmount(BigInt(maxAmountRequired), usual.decimals);
}
