/**
 * Payers who sign in to get what they have paid for: what that is, and that each sign-in is used once, by all who share
 * a ledger. Stored are only those that have something to get, so that nobody fills the list who has bought nothing.
 */
import type { PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import type { ClaimTerms } from "./transition.ts";

/** Sign-ins that are remembered for one payer until they are too old, and in all. */
export const MAX_SIGN_INS_PER_PAYER = 64;
export const MAX_SIGN_INS = 16_384;
/** So much longer than it counts a sign-in is remembered, milliseconds: clocks of processes differ. */
export const SIGN_IN_MARGIN_MS = 60_000;
/** Of a payer's newest payments so many are looked through. */
export const MAX_PAYMENTS_LOOKED_THROUGH = 1_024;
/** Bytes of the secret by which challenges are made. */
export const SIGN_IN_KEY_BYTES = 32;

export interface SignInUse {
  readonly nonce: string;
  /** Whoever has signed it. */
  readonly payer: string;
  /** When it counts no more, milliseconds since the epoch. */
  readonly untilMs: number;
}

/** `again`: it was used before. `crowded`: as many of that payer, or of all, are remembered as may be. */
export type SignInVerdict = "first" | "again" | "crowded";

/** Purchases of one payer that are told at most, the newest. */
export const MAX_PURCHASES = 64;

/** A payment that a payer has made here, of which nothing is to be paid back. */
export interface PaidSale {
  readonly key: PaymentKey;
  readonly network: string;
  /** Key of the route that sold it; null in rows that are older than routes. */
  readonly route: string | null;
  /** When it was claimed, milliseconds since the epoch. */
  readonly createdMs: number;
}

/** Of a row with its columns named as its members. */
export function readPurchase(row: Readonly<Record<string, unknown>>): PaidSale {
  const { key, network, route, createdMs } = row;
  return {
    // The column holds nothing but keys.
    key: String(key) as PaymentKey,
    network: String(network),
    route: typeof route === "string" ? route : null,
    createdMs: Number(createdMs),
  };
}

/** What a payer asks for who has signed in. */
export type BoughtSale = Pick<ClaimTerms, "binding" | "target">;

export interface OwedPayment {
  readonly key: PaymentKey;
  readonly request: FacilitatorRequest;
}

export interface SignInRecords {
  /** The secret by which challenges are made: made once, and the same for all who share the ledger. */
  key(): Promise<Uint8Array>;
  /**
   * What a payer has bought by such a request that he has not got, or may have again: what he has not got first, then
   * the newest; at most {@link MAX_OWED}, of a bounded number of his newest payments. No network is looked at.
   */
  bought(payer: string, sale: BoughtSale): Promise<readonly OwedPayment[]>;
  /**
   * What a payer has paid for and was not paid back, the newest first: of his newest {@link MAX_PAYMENTS_LOOKED_THROUGH}
   * payments, at most {@link MAX_PURCHASES}. No network is looked at.
   * @param routes keys of the routes that have sold it, and delivered it: what is still owed may be paid back, after all
   *   that hangs on it was had; null: any
   */
  purchases(payer: string, routes: readonly string[] | null): Promise<readonly PaidSale[]>;
  /** Stored when this resolves with `first`; of any number of concurrent ones with one nonce, one is. */
  use(use: SignInUse): Promise<SignInVerdict>;
}
