/** What every process with a listener is told of the certificates of this ledger. It holds private keys. */

/** PEM texts; the certificate with those between it and the root behind it. */
export interface ToldCertificate {
  /** Lower-case. */
  readonly domain: string;
  readonly cert: string;
  readonly key: string;
}

/** By what the authority sees that a name is ours, while it is about to look. */
export type ToldChallenge =
  | {
      readonly kind: "http-01";
      readonly domain: string;
      readonly token: string;
      /** What is answered at the token's path. */
      readonly answer: string;
    }
  | ({ readonly kind: "tls-alpn-01" } & ToldCertificate);

export interface ToldCertificates {
  /** In the order of the configuration: who names nobody gets the first. */
  readonly certificates: readonly ToldCertificate[];
  readonly challenges: readonly ToldChallenge[];
}

export const NO_CERTIFICATES: ToldCertificates = { certificates: [], challenges: [] };
