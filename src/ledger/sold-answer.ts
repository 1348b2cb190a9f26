/** Answers that were sold, and may be had once more. */

/** For how long a sold answer may be fetched again, milliseconds from now, and the target that it was sold for. */
export interface Again {
  readonly target: string;
  readonly forMs: number;
}

/** An answer that was sold, kept for the buyer who did not get all of it. */
export interface StoredResponse {
  readonly status: number;
  /** Names and values as they were sent, in order. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
  /** {@link Fingerprint.bodyHash}, where it was kept before its payment was settled, which may be shown with another body. */
  readonly bodyHash?: string | undefined;
}

/** What was asked when a stored answer was given: only the same is answered with it again. */
export interface Fingerprint {
  /** Canonical path and query. */
  readonly target: string;
  /** Hex SHA-256 of the request's body, and of what asks for a part of the answer. */
  readonly bodyHash: string;
}

/** An answer to be kept. `isUncollected`: its buyer had left before he had all of it, so that it is still owed. */
export interface SoldAnswer extends Fingerprint {
  readonly response: StoredResponse;
  readonly isUncollected?: boolean;
}
