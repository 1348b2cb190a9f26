/** Payments that no ledger has seen, of buyers who come again and again. */
import { randomBytes } from "node:crypto";
import { paymentKey } from "../../src/x402/payment-key.ts";
import { examplePayment, PAYER, type ExamplePayment } from "../unit/ledger/example-payment.ts";

const PAYERS = 50_000;

const payers: string[] = [];
const { request } = examplePayment(1);
const text = JSON.stringify(request);
const NONCE = `0x${"1".padStart(64, "0")}`;

export function freshPayments(count: number): readonly ExamplePayment[] {
  return Array.from({ length: count }, () => {
    if (payers.length < PAYERS) payers.push(`0x${randomBytes(20).toString("hex")}`);
    const payer = payers[Math.floor(Math.random() * payers.length)] ?? PAYER;
    const nonce = `0x${randomBytes(32).toString("hex")}`;
    const fresh = text.replaceAll(NONCE, nonce).replaceAll(PAYER, payer);
    const signed: typeof request = JSON.parse(fresh.replaceAll(PAYER.toLowerCase(), payer));
    const key = paymentKey(signed);
    if (!key.ok) throw new Error(key.error.detail);
    return { key: key.value, request: signed };
  });
}
