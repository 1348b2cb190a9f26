/** What the gateway sells at routes of its own (`own.ts`). */

/** What such a route sells. */
export type OwnGoods = {
  /** What is paid is in the payer's balance. */
  readonly kind: "credits";
};

/** The name of what answers there; no upstream of a file can have it. */
export const OWN_UPSTREAM = ".x402";

/** Below which they are. */
export const OWN_PATHS = "/.x402/";
