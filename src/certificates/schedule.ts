/** When a certificate is asked for: before its end, and again after a failure. */
import { createHash, X509Certificate } from "node:crypto";

/** A certificate is renewed with a third of its life left, and not all of them at once. */
const RENEWAL_PART = 2 / 3;
/** Each waits for up to this part of its life beyond that, always the same for one certificate. */
const JITTER_PART = 1 / 30;

/** Pause after the first failure, doubled with each one after it, milliseconds. */
const FIRST_PAUSE_MS = 120_000;
/**
 * Failures of one name that fit into an hour by these pauses: after 0, 2, 6, 14 and 30 minutes. Let's Encrypt bears five
 * failed validations an hour of a name, and then refuses every order for it.
 */
export const FAILURES_AN_HOUR = 5;
/** The longest of these pauses: a mend of a name's DNS is seen in time, as long as a certificate has days left. */
const LONGEST_PAUSE_MS = 6 * 3_600_000;
/** Where the authority could not be asked, which counts against nobody, the longest is shorter, milliseconds. */
const LONGEST_OUTAGE_PAUSE_MS = 600_000;
/** What an authority asks to wait is believed up to this, milliseconds. */
const LONGEST_ASKED_MS = 24 * 3_600_000;
/** A pause that ends later than this behind the longest was begun by a clock that was ahead, milliseconds. */
const CLOCK_SLACK_MS = 3_600_000;
/** Pauses are longer by up to this part, so that names do not stay together. */
const PAUSE_JITTER_PART = 0.1;

/** Milliseconds since the epoch. */
export function renewalMs(cert: string): number {
  const { validFromDate, validToDate, fingerprint256 } = new X509Certificate(cert);
  const lifeMs = validToDate.getTime() - validFromDate.getTime();
  const [byte = 0] = createHash("sha256").update(fingerprint256).digest();
  return validFromDate.getTime() + lifeMs * (RENEWAL_PART + (JITTER_PART * byte) / 256);
}

export interface FailedAttempt {
  /** In a row, this one included. */
  readonly failures: number;
  /** The authority was not there to refuse anything. */
  readonly isOutage: boolean;
  /** How long the authority asks to wait; undefined: it does not say. */
  readonly askedMs?: number | undefined;
}

/** Whether nothing is asked yet, by when a failure was to end; milliseconds since the epoch. */
export function isPaused(againMs: number, nowMs: number): boolean {
  return nowMs < againMs && againMs - nowMs <= LONGEST_ASKED_MS + CLOCK_SLACK_MS;
}

/** How long nothing is asked for that name, milliseconds. `random`: from 0 to 1. */
export function pauseMs(
  { failures, isOutage, askedMs = 0 }: FailedAttempt,
  random: number,
): number {
  const longest = isOutage ? LONGEST_OUTAGE_PAUSE_MS : LONGEST_PAUSE_MS;
  const pause = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(failures - 1, 30), longest);
  return Math.max(pause * (1 + PAUSE_JITTER_PART * random), Math.min(askedMs, LONGEST_ASKED_MS));
}
