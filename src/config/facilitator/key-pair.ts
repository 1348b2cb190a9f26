/**
 * Whether a certificate and a private key, as PEM texts, can be served: what `check` says of a listener's files
 * and what a running listener says of those that it reads anew. Nothing of a key is part of a message.
 */
import { createPrivateKey, X509Certificate, type KeyObject } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { ProblemCode } from "../reading/problem-codes.ts";

export interface KeyPairFault {
  /** `warning`: it can be served, and clients will refuse it. */
  readonly severity: "error" | "warning";
  /** Which of the two files it is about. */
  readonly part: "cert" | "key";
  readonly code: ProblemCode;
  /** Completes a sentence about that file. */
  readonly message: string;
  /** What to do about it. */
  readonly hint: string;
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/** Null: nothing is wrong. `now`: milliseconds since the epoch. */
export function keyPairFault(cert: string, key: string, now: number): KeyPairFault | null {
  const chain = readChain(cert);
  if (chain === null)
    return certFault("bad-certificate", "has a certificate that cannot be read", AGAIN);
  const [leaf] = chain;
  if (leaf === undefined) {
    const hint = key.includes("BEGIN CERTIFICATE") ? "; the two files look swapped" : "";
    return certFault("no-certificate", `has no certificate in PEM form${hint}`, PEM);
  }
  const privateKey = readPrivateKey(key);
  if (typeof privateKey === "string") {
    const hint = "name the file of its key, in PEM and without a passphrase";
    return { severity: "error", part: "key", code: "malformed-key", message: privateKey, hint };
  }
  if (!leaf.checkPrivateKey(privateKey)) {
    const message = chain.slice(1).some((each) => each.checkPrivateKey(privateKey))
      ? "begins with another certificate than the key's, which has to come first"
      : "does not match the key";
    const hint = "name the key that the certificate was made for, and put that certificate first";
    return certFault("key-mismatch", message, hint);
  }
  return contextFault(cert, key) ?? validityFault(leaf, now);
}

/** What OpenSSL refuses beyond that: keys that are too short, for the most part. */
function contextFault(cert: string, key: string): KeyPairFault | null {
  try {
    createSecureContext({ cert, key, minVersion: "TLSv1.2" });
    return null;
  } catch (error) {
    const reason = error instanceof Error && "reason" in error ? `: ${String(error.reason)}` : "";
    return certFault("bad-certificate", `cannot be served${reason}`, AGAIN);
  }
}

const AGAIN = "get a new one";
const PEM = "name a file with BEGIN CERTIFICATE in it";

function certFault(code: ProblemCode, message: string, hint: string): KeyPairFault {
  return { severity: "error", part: "cert", code, message, hint };
}

/** Null when a block of the text is none. */
function readChain(text: string): readonly X509Certificate[] | null {
  try {
    return [...text.matchAll(CERTIFICATE)].map(([block]) => new X509Certificate(block));
  } catch {
    return null;
  }
}

/** The sentence that refuses the text, or the key. */
function readPrivateKey(text: string): KeyObject | string {
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(text)) {
    return "has a passphrase, which nobody would be there to type; write the key without one";
  }
  try {
    return createPrivateKey(text);
  } catch {
    return "has no private key in PEM form";
  }
}

function validityFault(leaf: X509Certificate, now: number): KeyPairFault | null {
  const until = leaf.validToDate;
  const from = leaf.validFromDate;
  if (until.getTime() <= now) {
    return certWarning(
      "expired-certificate",
      `has expired on ${dayOf(until)}: clients refuse it`,
      AGAIN,
    );
  }
  if (from.getTime() <= now) return null;
  return certWarning(
    "young-certificate",
    `is not valid before ${dayOf(from)}: clients refuse it`,
    AGAIN,
  );
}

function certWarning(code: ProblemCode, message: string, hint: string): KeyPairFault {
  return { severity: "warning", part: "cert", code, message, hint };
}

function dayOf(date: Date): string {
  return date.toISOString().slice(0, 10);
}
