/**
 * Requests that pay, each with a payment of its own. One signature serves all of them: the facilitator of
 * these benches is a stub, and nobody else looks at it.
 */
import { randomBytes } from "node:crypto";
import { encodePaymentHeader } from "../../../src/x402/header.ts";
import { freshAccount, requirementsFor, signPayment } from "../../support/payer.ts";
import { NETWORK, PAY_TO } from "../contenders/wares.ts";

/** Longer than any bench. */
const VALID_SECONDS = 3_600;
const NONCE_BYTES = 32;

const requirements = requirementsFor(NETWORK, {
  payTo: PAY_TO,
  maxTimeoutSeconds: VALID_SECONDS,
});
const signed = await signPayment({ account: freshAccount().account, requirements });

/** `X-PAYMENT` values, no two of them the same payment. */
export function newPayments(count: number): string[] {
  return Array.from({ length: count }, () => {
    const nonce = `0x${randomBytes(NONCE_BYTES).toString("hex")}` as const;
    const authorization = { ...signed.payload.authorization, nonce };
    return encodePaymentHeader({ ...signed, payload: { ...signed.payload, authorization } });
  });
}

/** A whole request, as it goes over the wire. */
export function paidRequest(path: string, payment: string): Buffer {
  const head = `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: bench\r\n`;
  return Buffer.from(`${head}X-PAYMENT: ${payment}\r\n\r\n`);
}
