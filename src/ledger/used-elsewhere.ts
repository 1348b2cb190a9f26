/**
 * Payments whose nonce the chain knew as used when they were presented here, and that the ledger does not know:
 * used at another gateway, cancelled, or of a ledger that has lost them. Somebody may have been charged for
 * nothing, so they are kept for the operator, without their signature. How many is limited for each payer and in
 * all, and the first ones stay: whoever floods the list pushes nobody out of it.
 */
import { payerOf, type PaymentKey } from "../x402/payment-key.ts";
import type { ClaimTerms } from "./transition.ts";
import { amountOf } from "./payment-row.ts";

/** Payments that are remembered for one payer, and in all. */
export const MAX_USED_ELSEWHERE_PER_PAYER = 5;
export const MAX_USED_ELSEWHERE = 10_000;

/** What the ledger knows of payments that have no row. */
export interface Rowless {
  /** Those of the keys whose payment ended so long ago that only a tombstone is left. */
  buried(keys: readonly PaymentKey[]): Promise<readonly PaymentKey[]>;
  /** The first note of a payment stays; a repeat, and what is over a limit, changes nothing. */
  noteUsedElsewhere(key: PaymentKey, asked: AskedFor): Promise<void>;
}

export type AskedFor = Pick<ClaimTerms, "binding" | "request">;

export interface UsedElsewhere {
  /** Its last part is the nonce. */
  readonly key: PaymentKey;
  readonly network: string;
  readonly asset: string;
  /** Decimal digits, atomic units: what the payer signed. */
  readonly amount: string;
  readonly payer: string;
  readonly payTo: string;
  /** Method and path that were asked for. */
  readonly binding: string;
  /** When it was presented first, milliseconds since the epoch. */
  readonly seenMs: number;
}

/** Reads a line as a database driver returns it, whose columns bear the names above. */
export function readUsedElsewhere(columns: Readonly<Record<string, unknown>>): UsedElsewhere {
  return {
    // The column holds nothing but keys.
    key: String(columns["key"]) as PaymentKey,
    network: String(columns["network"]),
    asset: String(columns["asset"]),
    amount: String(columns["amount"]),
    payer: String(columns["payer"]),
    payTo: String(columns["payTo"]),
    binding: String(columns["binding"]),
    seenMs: Number(columns["seenMs"]),
  };
}

export function usedElsewhere(
  key: PaymentKey,
  { binding, request }: AskedFor,
  nowMs: number,
): UsedElsewhere {
  const { network, asset, payTo } = request.paymentRequirements;
  const payer = payerOf(request.paymentPayload);
  const amount = amountOf(request);
  return { key, network, asset, amount, payer, payTo, binding, seenMs: nowMs };
}
