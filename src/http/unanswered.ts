/** Why a backend has given no answer, or would give none. */
export type UnansweredReason =
  /** No connection to the backend, in time or at all. */
  | "connect"
  /** Connected, but no head within the response timeout. */
  | "timeout"
  /** The connection died before a complete head. */
  | "broken"
  /** What came back is not HTTP, or cannot be passed on as HTTP. */
  | "malformed"
  /** A 402 that is not x402: v1 clients crash on it. */
  | "foreign-402"
  /** Every connection that the limit allows is busy. */
  | "saturated"
  /** The last connection attempts failed; none was made for this request. */
  | "down"
  /** The backend answered with one of the statuses that are not to be passed on. */
  | "declined"
  /** The request body is larger than the limit; close the client's connection after answering. */
  | "too-large";

/** Nothing was written to the client, who is told the status. */
export interface Unanswered {
  readonly kind: "unanswered";
  readonly status: 413 | 502 | 503 | 504;
  readonly reason: UnansweredReason;
  /** A sentence for the log; it may name the backend, so it is not for clients. */
  readonly detail: string;
  /** False only when it is certain that the backend saw nothing of the request. */
  readonly sent: boolean;
  /**
   * Nothing of the request's body is lost: the same request can be forwarded once more, here or to
   * another target. Whether it may be, after it was {@link sent}, is its method's affair.
   */
  readonly retriable: boolean;
}
