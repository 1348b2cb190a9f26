/** The examples of the specification's transports for MCP, versions 1 and 2: the same members and values. */
const AUTHORIZATION = {
  from: "0x857b06519E91e3A54538791bDbb0E22373e36b66",
  to: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
  value: "10000",
  validAfter: "1740672089",
  validBefore: "1740672154",
  nonce: "0xf3746613c2d920b5fdabc0856f2aeb2d4f88ee6037b8cc5d04a71a4462f13480",
};
const SIGNED = {
  signature:
    "0x2d6a7588d6acca505cbf0d9a4a227e0c52c6c34008c8e8986a1283259764173608a2ce6496642e377d6da8dbbf5836e9bd15092f9ecab05ded3d6293af148b571c",
  authorization: AUTHORIZATION,
};
const TOKEN = {
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
  maxTimeoutSeconds: 60,
  extra: { name: "USDC", version: "2" },
};
const RESOURCE = {
  url: "mcp://tool/financial_analysis",
  description: "Advanced financial analysis tool",
  mimeType: "application/json",
};
const WAY_V2 = { scheme: "exact", network: "eip155:84532", amount: "10000", ...TOKEN };

export const REQUIRED_V2 = {
  x402Version: 2,
  error: "Payment required to access this resource",
  resource: RESOURCE,
  accepts: [WAY_V2],
} as const;

export const REQUIRED_V1 = {
  x402Version: 1,
  error: "Payment required to access this resource",
  accepts: [
    {
      scheme: "exact",
      network: "kairos-testnet",
      maxAmountRequired: "10000",
      resource: RESOURCE.url,
      description: RESOURCE.description,
      mimeType: RESOURCE.mimeType,
      outputSchema: null,
      ...TOKEN,
    },
  ],
};

/** The error of version 1. */
export const ERROR_V1 = { code: 402, message: "Payment required", data: REQUIRED_V1 };

const CALL = { name: "financial_analysis", arguments: { ticker: "AAPL", analysis_type: "deep" } };

export const PARAMS_V2 = {
  ...CALL,
  _meta: {
    "x402/payment": { x402Version: 2, resource: RESOURCE, accepted: WAY_V2, payload: SIGNED },
  },
};

export const PARAMS_V1 = {
  ...CALL,
  _meta: {
    "x402/payment": {
      x402Version: 1,
      scheme: "exact",
      network: "kairos-testnet",
      payload: SIGNED,
    },
  },
};

export const RECEIPT_V2 = {
  success: true,
  transaction: "0x1234567890abcdef1234567890abcdef1234567890abcdef1234567890abcdef",
  network: "eip155:84532",
  payer: AUTHORIZATION.from,
} as const;

export const RESULT_V2 = {
  content: [
    {
      type: "text",
      text: "Financial analysis for AAPL: Strong fundamentals with positive outlook...",
    },
  ],
  _meta: { "x402/payment-response": RECEIPT_V2 },
};

export const FAILED_V2 = {
  success: false,
  errorReason: "insufficient_funds",
  transaction: "",
  network: "eip155:84532",
} as const;
