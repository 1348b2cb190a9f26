/** A ledger with one payment in each state that an operator meets, as a gateway would have left them. */
import type { ClaimTerms, Ledger } from "../../../src/ledger/ledger.ts";
import type { Time } from "../../../src/time/time.ts";
import { systemTime } from "../../../src/time/time.ts";
import { examplePayment, type ExamplePayment } from "../../unit/ledger/example-payment.ts";

export const ACCOUNT = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
/** What a hostile backend or facilitator might write. */
export const HOSTILE = "\u001b]0;owned\u0007\u202egnp=1+1\r\nfake line";
/** The moment of the first claim; each next one is a minute later. */
const FIRST_MS = Date.parse("2025-08-01T12:00:00.000Z");
const MINUTE_MS = 60_000;

/** Stands still until the next payment. */
export class MinuteTime implements Time {
  nowMs = FIRST_MS;

  readonly now = (): number => this.nowMs;

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return systemTime.sleep(ms, signal);
  }

  timeout(ms: number): AbortSignal {
    return systemTime.timeout(ms);
  }
}

export interface Prepared {
  readonly delivered: ExamplePayment;
  readonly undelivered: ExamplePayment;
  readonly exhausted: ExamplePayment;
  readonly failed: ExamplePayment;
  readonly signed: ExamplePayment;
  readonly handedOver: ExamplePayment;
  readonly settledForOthers: ExamplePayment;
}

export const PREPARED = 7;

export function hashOf(number: number): string {
  return `0x${number.toString(16).padStart(64, "c")}`;
}

function termsOf({ request, key }: ExamplePayment): ClaimTerms {
  return {
    binding: "GET /weather",
    target: "/weather?city=Rome",
    idempotencyKey: `idempotency ${key}`,
    request,
    claimant: "a client",
  };
}

/** Fills the ledger in this order, oldest first. */
export async function prepare(ledger: Ledger, time: MinuteTime): Promise<Prepared> {
  const next = (): void => {
    time.nowMs += MINUTE_MS;
  };
  const claimed = async (number: number): Promise<ExamplePayment> => {
    const payment = examplePayment(number);
    await ledger.step(payment.key, { kind: "claim", terms: termsOf(payment) });
    return payment;
  };
  const settle = async ({ key, request }: ExamplePayment, number: number): Promise<void> => {
    const { network } = request.paymentPayload;
    const payer = "0x857b06519E91e3A54538791bDbb0E22373e36b66";
    await ledger.step(key, {
      kind: "settled",
      settlement: { transaction: hashOf(number), network, payer },
    });
  };
  const attempt = async ({ key }: ExamplePayment): Promise<void> => {
    await ledger.step(key, { kind: "delivering" });
    await ledger.step(key, { kind: "undelivered", broken: { sent: true, served: null } });
  };

  const delivered = await claimed(1);
  await settle(delivered, 1);
  await ledger.step(delivered.key, { kind: "delivering" });
  await ledger.step(delivered.key, { kind: "delivered" });
  next();
  const undelivered = await claimed(2);
  await settle(undelivered, 2);
  await attempt(undelivered);
  next();
  const exhausted = await claimed(3);
  await settle(exhausted, 3);
  for (let attempts = 0; attempts < 3; attempts += 1) await attempt(exhausted);
  next();
  const failed = await claimed(4);
  await ledger.step(failed.key, {
    kind: "failed",
    failure: { code: "insufficient_funds", detail: HOSTILE },
  });
  next();
  const signed = await claimed(5);
  await sign(ledger, signed);
  next();
  const handedOver = await claimed(6);
  await ledger.step(handedOver.key, {
    kind: "handedOver",
    facilitator: "https://facilitator.example.com",
  });
  next();
  const settledForOthers = examplePayment(7);
  await ledger.step(settledForOthers.key, {
    kind: "begin",
    request: settledForOthers.request,
    caller: undefined,
  });
  await settle(settledForOthers, 7);
  return { delivered, undelivered, exhausted, failed, signed, handedOver, settledForOthers };
}

/** Signed once, and once more with a higher fee. */
async function sign(ledger: Ledger, { key, request }: ExamplePayment): Promise<void> {
  const { network } = request.paymentPayload;
  const lease = await ledger.signing.lease(network, ACCOUNT);
  if (lease === undefined) throw new Error("the account is taken");
  const variant = (number: number, accountNonce: number) => {
    return { transaction: hashOf(number), raw: "0x02", account: ACCOUNT, accountNonce };
  };
  const { id } = await ledger.signing.signed([key], { ...lease, seed: 41 }, (nonce) =>
    variant(50, nonce),
  );
  await ledger.signing.replaced(lease, id, variant(51, 41));
}
