/** The payments that the simulated buyers sign, and what they are for. */
import { paymentKey, type PaymentKey } from "../../src/x402/payment-key.ts";
import type { EvmPayload, PaymentPayload, PaymentRequirements } from "../../src/x402/x402.ts";
import type { Authorization } from "./chain.ts";

export const NETWORK = "base-sepolia";
export const PAY_TO = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
/** Where redirects lead. */
export const LED_PATH = "/elsewhere";
export const PRICE = 1000n;
const FIRST_PAYER = 0xa0000;
const ASSET = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";

/** A signed payment, with its name in the chain's books. */
export interface SimulatedPayment {
  readonly key: PaymentKey;
  readonly payload: PaymentPayload;
  readonly authorization: Authorization;
}

export function payerNamed(number: number): string {
  return `0x${(FIRST_PAYER + number).toString(16).padStart(40, "0")}`;
}

/** The number of a payer that has that name. */
export function payerOf(name: string): number {
  return Number.parseInt(name.slice(2), 16) - FIRST_PAYER;
}

export function requirementsOf(maxTimeoutSeconds: number): PaymentRequirements {
  return {
    scheme: "exact",
    network: NETWORK,
    maxAmountRequired: PRICE.toString(),
    asset: ASSET,
    payTo: PAY_TO,
    resource: "https://shop.example/weather",
    description: "weather",
    maxTimeoutSeconds,
  };
}

/** Stands for the payer's signature: whoever does not know the rule cannot make it. */
export function signatureOf({ authorization }: Pick<EvmPayload, "authorization">): string {
  const digits = authorization.nonce.slice(2);
  return `0x${digits}${digits}1b`;
}

export interface ToPay {
  readonly payer: number;
  readonly number: number;
  readonly nowMs: number;
  readonly requirements: PaymentRequirements;
}

export function signPayment({ payer, number, nowMs, requirements }: ToPay): SimulatedPayment {
  const now = Math.floor(nowMs / 1000);
  const from = payerNamed(payer);
  const authorization = {
    from,
    to: PAY_TO,
    value: requirements.maxAmountRequired,
    validAfter: (now - 600).toString(),
    validBefore: (now + requirements.maxTimeoutSeconds).toString(),
    nonce: `0x${number.toString(16).padStart(64, "0")}`,
  };
  const payload: PaymentPayload = {
    x402Version: 1,
    scheme: "exact",
    network: NETWORK,
    payload: { signature: signatureOf({ authorization }), authorization },
  };
  const key = paymentKey({ paymentPayload: payload, paymentRequirements: requirements });
  if (!key.ok) throw new Error(key.error.detail);
  return {
    key: key.value,
    payload,
    authorization: {
      id: `${from}/${authorization.nonce}`,
      from,
      to: PAY_TO.toLowerCase(),
      value: PRICE,
      validAfter: now - 600,
      validBefore: now + requirements.maxTimeoutSeconds,
    },
  };
}

/** The same authorization with a signature that its payer never made. */
export function forge({ payload, ...payment }: SimulatedPayment): SimulatedPayment {
  return {
    ...payment,
    payload: { ...payload, payload: { ...payload.payload, signature: `0x${"66".repeat(65)}` } },
  };
}
