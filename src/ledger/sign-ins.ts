/**
 * Payers who sign in to get what they have paid for: what that is, and that each sign-in is used once, by all who share
 * a ledger. Stored are only those that have something to get, so that nobody fills the list who has bought nothing.
 */
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

export interface SignInUses {
  /** Stored when this resolves with `first`; of any number of concurrent ones with one nonce, one is. */
  useSignIn(use: SignInUse): Promise<SignInVerdict>;
}
