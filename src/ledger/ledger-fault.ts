/** What a ledger throws. */

/**
 * A transition that the row's state does not allow: a bug, another process working on our file, a life
 * that was taken for dead, or a concurrent caller with the same idempotency key that was first.
 */
export class LedgerConflict extends Error {
  override readonly name = "LedgerConflict";
  readonly code = "LEDGER_CONFLICT";
}

/** The database cannot be asked or cannot store: disk full, corrupt, locked, closed, of a newer schema. */
export class LedgerUnavailable extends Error {
  override readonly name = "LedgerUnavailable";
  readonly code = "LEDGER_UNAVAILABLE";
}
