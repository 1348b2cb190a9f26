/**
 * What an OpenAPI document says of payment in each version of the protocol: the header as a parameter, the 402
 * answer, the receipt, and `x-payment-info`, by which programs that read such documents find what an operation costs.
 * It is no security scheme: registries take that for a key that somebody has to be given before he can pay.
 */
import { formatAmount } from "../x402/amount.ts";
import { findNetwork } from "../x402/network.ts";
import { PAYMENT_HEADERS, PAYMENT_REQUIRED_HEADER, RECEIPT_HEADERS } from "../x402/header.ts";
import type { Versions } from "../x402/how-to-pay.ts";
import { requirementsV2 } from "../x402/version-2.ts";
import {
  X402_VERSION,
  X402_VERSION_2,
  type PaymentRequirements,
  type X402Version,
} from "../x402/x402.ts";
import type { DescriptionValues } from "./description.ts";

/** Names of our parts among a document's components: no description of a backend has a reason to use them. */
const PARAMETERS = {
  [X402_VERSION]: "X402Payment",
  [X402_VERSION_2]: "X402PaymentSignature",
} as const;
const REQUIRED = "X402PaymentRequired";
const REQUIREMENTS = "X402PaymentRequirements";
const RECEIPT = "X402PaymentResponse";
/** Which of a payload's members each version has, and where the 402 answer lists the ways to pay. */
const CONTENT = {
  [X402_VERSION]:
    "x402Version, scheme, network and payload. Ask without it first; the 402 answer lists the ways to pay.",
  [X402_VERSION_2]:
    "x402Version, accepted and payload. Ask without it first; the header PAYMENT-REQUIRED of the 402 answer " +
    "lists the ways to pay.",
} as const;

export const REQUIRED_RESPONSE: DescriptionValues = { $ref: `#/components/responses/${REQUIRED}` };
/** What a client takes from the payment, in whatever version. */
export const PAYMENT_HEADER: RegExp = new RegExp(
  `^(?:${Object.values(PAYMENT_HEADERS).join("|")})$`,
  "i",
);

/** The parameters of whatever is paid for: one of them is enough. */
export function paymentParameters(versions: Versions): readonly DescriptionValues[] {
  return versions.map((version) => ({ $ref: `#/components/parameters/${PARAMETERS[version]}` }));
}

export function receiptHeaders(versions: Versions): DescriptionValues {
  const reference = { $ref: `#/components/headers/${RECEIPT}` };
  return Object.fromEntries(versions.map((version) => [RECEIPT_HEADERS[version], reference]));
}

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

const REQUIRED_HEADERS = {
  [PAYMENT_REQUIRED_HEADER]: {
    description:
      "The ways to pay in version 2: base64 of JSON with x402Version, error, resource, accepts and extensions.",
    schema: text,
  },
};

function parameterOf(version: X402Version): DescriptionValues {
  return {
    name: PAYMENT_HEADERS[version],
    in: "header",
    description: `A signed payment (x402 version ${version}): base64 of JSON with ${CONTENT[version]}`,
    schema: text,
  };
}

/** A document's components with ours among them. */
export function withPaymentParts(
  components: DescriptionValues,
  versions: Versions,
): DescriptionValues {
  const kind = (name: string): object => Object(components[name]);
  const isOld = versions.includes(X402_VERSION);
  return {
    ...components,
    parameters: {
      ...kind("parameters"),
      ...Object.fromEntries(versions.map((version) => [PARAMETERS[version], parameterOf(version)])),
    },
    schemas: {
      ...kind("schemas"),
      ...(isOld && { [REQUIRED]: REQUIRED_SCHEMA, [REQUIREMENTS]: REQUIREMENTS_SCHEMA }),
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
        ...(versions.includes(X402_VERSION_2) && { headers: REQUIRED_HEADERS }),
        ...(isOld && {
          content: { "application/json": { schema: { $ref: `#/components/schemas/${REQUIRED}` } } },
        }),
      },
    },
  };
}

/** `price` is there where one of the ways to pay is in its network's own stablecoin, whose unit is a dollar. */
export function paymentInfo(
  accepts: readonly PaymentRequirements[],
  versions: Versions,
  least?: string,
): DescriptionValues {
  const amount = accepts.map(dollarsOf).find((dollars) => dollars !== undefined);
  return {
    ...(amount !== undefined && { price: { ...priceInfo(amount, least), currency: "USD" } }),
    protocols: versions.map((version) => {
      return { x402: { version, accepts: accepts.map((each) => wayOf(each, version)) } };
    }),
  };
}

function priceInfo(amount: string, least: string | undefined): DescriptionValues {
  if (least === undefined) return { mode: "fixed", amount };
  return { mode: "dynamic", min: least, max: amount };
}

/** A way to pay, without what only signing needs. */
function wayOf(requirements: PaymentRequirements, version: X402Version): DescriptionValues {
  if (version === X402_VERSION_2) {
    const { scheme, network, amount, asset, payTo } = requirementsV2(requirements);
    return { scheme, network, amount, asset, payTo };
  }
  const { scheme, network, maxAmountRequired, asset, payTo } = requirements;
  return { scheme, network, maxAmountRequired, asset, payTo };
}

function dollarsOf({ network, asset, maxAmountRequired }: PaymentRequirements): string | undefined {
  const usual = findNetwork(network)?.asset;
  if (usual === undefined || usual.address.toLowerCase() !== asset.toLowerCase()) return undefined;
  return formatAmount(BigInt(maxAmountRequired), usual.decimals);
}
