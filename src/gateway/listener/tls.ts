/** How a listener speaks TLS: what is agreed on, and with which limits. */
import { constants } from "node:crypto";
import type { TlsOptions } from "node:tls";

/** Both are PEM texts; the certificate with those between it and the root behind it. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

/** A TLS handshake must be complete within this, milliseconds. */
const HANDSHAKE_TIMEOUT_MS = 10_000;
/** A session that was agreed on may be taken up again within this, seconds. */
const SESSION_SECONDS = 3_600;

/** TLS 1.3, and of TLS 1.2 what has forward secrecy and authenticated encryption (RFC 9325 section 4.2). */
const CIPHERS = [
  "TLS_AES_128_GCM_SHA256",
  "TLS_AES_256_GCM_SHA384",
  "TLS_CHACHA20_POLY1305_SHA256",
  "ECDHE-ECDSA-AES128-GCM-SHA256",
  "ECDHE-RSA-AES128-GCM-SHA256",
  "ECDHE-ECDSA-AES256-GCM-SHA384",
  "ECDHE-RSA-AES256-GCM-SHA384",
  "ECDHE-ECDSA-CHACHA20-POLY1305",
  "ECDHE-RSA-CHACHA20-POLY1305",
].join(":");

/**
 * What `setSecureContext` takes, and goes for each new connection.
 * @param ticketKeys see `ticket-keys.ts`; none: those of the server
 */
export function secureContext({ cert, key }: KeyPair, ticketKeys?: Buffer): TlsOptions {
  return { ...agreed, ...(ticketKeys === undefined ? {} : { ticketKeys }), cert, key };
}

const agreed: TlsOptions = {
  minVersion: "TLSv1.2",
  ciphers: CIPHERS,
  honorCipherOrder: true,
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
  sessionTimeout: SESSION_SECONDS,
};

const HTTP1 = ["http/1.1", "http/1.0"];
/** HTTP/2 for whoever knows it. */
export const BOTH_PROTOCOLS = ["h2", ...HTTP1];

/** Of a server that has no certificate yet. */
export function tlsOptions(ticketKeys: Buffer): TlsOptions {
  return {
    ...agreed,
    ticketKeys,
    ALPNProtocols: HTTP1,
    handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
  };
}

/** Of a server that speaks nothing but one protocol, with certificates by name alone. */
export function challengeOptions(protocols: readonly string[]): TlsOptions {
  return { ...agreed, ALPNProtocols: [...protocols], handshakeTimeout: HANDSHAKE_TIMEOUT_MS };
}
