/** What is kept of certificates that an authority gives: texts by name, for all who share a ledger, private keys among them. */

/** A right to ask that ends later than this was taken by a clock that was ahead, milliseconds: it is nobody's. */
export const LONGEST_LEASE_MS = 3_600_000;

export interface KeptText {
  /** What it is, a space, and of what: `certificate api.example.com`. */
  readonly name: string;
  readonly text: string;
}

export interface KeptCertificates {
  /** Another one whenever {@link list} has something else to say. */
  revision(): Promise<string>;
  /** Everything, by name. */
  list(): Promise<readonly KeptText[]>;
  /** Seen by {@link list} everywhere when this resolves. */
  put(kept: KeptText): Promise<void>;
  remove(name: string): Promise<void>;
  /**
   * The right to ask the authority, of one process at a time: until then, milliseconds since the epoch. False: another
   * one has it. Whoever has it takes it anew before it ends, or gives it back with a time that is over.
   */
  lease(holder: string, untilMs: number): Promise<boolean>;
}
