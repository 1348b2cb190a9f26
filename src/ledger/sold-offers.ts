/**
 * What other gateways sold through us: one row for each way to pay that was last used for a resource. It is kept
 * for the listing alone; no payment is ever judged by it.
 */

/** Names a resource of another gateway. */
export interface SoldResource {
  /** The name of the gateway in our configuration. */
  readonly gateway: string;
  /** URL, or the template of a pattern route. */
  readonly resource: string;
  /** Upper case. */
  readonly method: string;
}

export interface SoldOffer extends SoldResource {
  readonly network: string;
  readonly asset: string;
  /** The payment requirement as it is listed, JSON text (protocol section 2.1). */
  readonly terms: string;
  /** Of the terms: while it stays the same, so does `changedAt`. */
  readonly hash: string;
  /** Unix seconds of the last change of the terms. */
  readonly changedAt: number;
  /** Milliseconds since the epoch of the newest sale that was noted. */
  readonly soldMs: number;
}

export interface SoldOffers {
  /**
   * Stores a sale in place of the one before it in the same way to pay: with the same hash `changedAt` stays what
   * it was. One that is older than what is stored changes nothing.
   */
  note(offer: SoldOffer): Promise<void>;
  /** Those whose newest sale is of that time or later, milliseconds; the newest first. */
  since(soldMs: number, limit: number): Promise<readonly SoldOffer[]>;
  /** Drops every way to pay for a resource. */
  forget(resource: SoldResource): Promise<void>;
  /** Drops what was last sold before that time, milliseconds; resolves with the number of rows. */
  forgetBefore(soldMs: number): Promise<number>;
}
