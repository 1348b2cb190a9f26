/** What the gateway sells at routes of its own (`own.ts`). */

/** What such a route sells. */
export type OwnGoods =
  /** What is paid is in the payer's balance. */
  { readonly kind: "credits" } | PassGoods;

/** Who has paid has what other routes serve. */
export interface PassGoods {
  readonly kind: "pass";
  readonly name: string;
  /** Keys of those routes. */
  readonly routes: readonly string[];
  readonly forMs: number;
  /** Requests of all of them together; null: as many as he likes. */
  readonly times: number | null;
}

/** The name of what answers there; no upstream of a file can have it. */
export const OWN_UPSTREAM = ".x402";

/** Below which they are. */
export const OWN_PATHS = "/.x402/";
