/** What can be wrong with what came of an attack. */
export const KINDS = [
  /** A priced or denied resource reached the backend unpaid. */
  "bypass",
  /** The same bytes are free to one kind of backend and priced or denied to another. */
  "backend-dependent reading",
  /** The backend saw another number of requests than were priced, or bytes of one in another. */
  "smuggle",
  /** The process ended, or the next plain request was not answered. */
  "crash",
  /** A 5xx although the backend was healthy. */
  "5xx",
  /** Neither an answer nor a close in time. */
  "hang",
  /** A header line crossed that must not, or one of the gateway's own was lost. */
  "crossing",
  /** Money moved for a request that was refused, or a payment shows where it must not. */
  "payment",
  /** The answer is not the one that the case demands. */
  "answer",
] as const;

export type Kind = (typeof KINDS)[number];

export interface Flaw {
  readonly kind: Kind;
  readonly detail: string;
}
