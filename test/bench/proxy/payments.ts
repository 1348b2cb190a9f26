/** Requests that pay, each with a payment of its own: the gateway proves each signature before it asks anybody. */
import { randomBytes } from "node:crypto";
import { requirementsFor } from "../../support/payer.ts";
import { quickPayment } from "../../support/quick-payer.ts";
import { NETWORK, PAY_TO } from "../contenders/wares.ts";

/** Longer than any bench. */
const VALID_SECONDS = 3_600;
const PAYERS = 50;

const requirements = requirementsFor(NETWORK, {
  payTo: PAY_TO,
  maxTimeoutSeconds: VALID_SECONDS,
});
const keys = Array.from({ length: PAYERS }, () => randomBytes(32));

/** `X-PAYMENT` values, no two of them the same payment. */
export function newPayments(count: number): string[] {
  return Array.from({ length: count }, (_, index) => {
    return quickPayment(keys[index % PAYERS] ?? randomBytes(32), requirements, VALID_SECONDS);
  });
}

/** A whole request, as it goes over the wire. */
export function paidRequest(path: string, payment: string): Buffer {
  const head = `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: bench\r\n`;
  return Buffer.from(`${head}X-PAYMENT: ${payment}\r\n\r\n`);
}
