/**
 * Asks the chain, again and again, what became of a payment that somebody else settles. One node that is
 * behind, or wrong, must not end a payment: a failure counts when two looks in a row found the same one.
 * An authorization that is unused is no failure as long as it can be used, since whoever has it may still
 * send it.
 */
import { ChainError, type Observer } from "../mechanism/mechanism.ts";
import type { Time } from "../time/time.ts";
import type { Refusal } from "../x402/result.ts";

/** The first pause between two looks, milliseconds; each next one is half as long again. */
const FIRST_PAUSE_MS = 250;
/** The longest pause between two looks, milliseconds. */
const MAX_PAUSE_MS = 2_000;

export interface ChainQuestion {
  readonly observer: Observer;
  /** As the observer parsed it. */
  readonly authorization: unknown;
  /** The transaction that a facilitator says it was. */
  readonly claimed: string | undefined;
  /**
   * Where the chain stood when the payment was handed over: only a later use is this payment's. Null where
   * that is not known.
   */
  readonly after: number | null;
}

export interface Watch {
  readonly time: Time;
  /** Ends the watch. */
  readonly signal: AbortSignal;
  /** Looks at most; one that found a failure is always followed by another. */
  readonly looks: number;
}

export type Seen =
  | {
      readonly kind: "confirmed";
      readonly transaction: string;
      readonly sender?: string | undefined;
      /** Where the chain stood at the hand-over is not known: it may have been there before. */
      readonly isUndated?: true;
    }
  /** Definite: found twice. */
  | { readonly kind: "failed"; readonly refusal: Refusal }
  /** `hasAnswered`: the chain could be asked at the last look, and said nothing definite. */
  | { readonly kind: "unknown"; readonly detail: string; readonly hasAnswered: boolean };

export async function watchChain(sighting: ChainQuestion, watch: Watch): Promise<Seen> {
  const { time, signal, looks } = watch;
  let last: Seen = { kind: "unknown", detail: "the chain was not asked", hasAnswered: false };
  let suspected: Refusal | undefined;
  let pauseMs = FIRST_PAUSE_MS;
  for (let count = 1; !signal.aborted; count += 1) {
    const seen = await look(sighting, signal);
    if (seen.kind === "confirmed") return seen;
    if (seen.kind === "failed") {
      const { code, detail } = seen.refusal;
      if (suspected?.code === code && suspected.detail === detail) return seen;
      suspected = seen.refusal;
      last = { kind: "unknown", detail: `seen once: ${detail}`, hasAnswered: true };
    } else {
      suspected = undefined;
      last = seen;
      if (count >= looks) return last;
    }
    await time.sleep(pauseMs, signal);
    pauseMs = Math.min(pauseMs * 1.5, MAX_PAUSE_MS);
  }
  return last;
}

async function look(
  { observer, authorization, claimed, after }: ChainQuestion,
  signal: AbortSignal,
): Promise<Seen> {
  try {
    const seen = await observer.reconcile(authorization, { claimed, after }, signal);
    if (seen.kind === "confirmed") return after === null ? { ...seen, isUndated: true } : seen;
    if (seen.kind === "unknown") return { ...seen, hasAnswered: true };
    if (!seen.retriable) return seen;
    return { kind: "unknown", detail: seen.refusal.detail, hasAnswered: true };
  } catch (cause) {
    if (!(cause instanceof ChainError)) throw cause;
    return { kind: "unknown", detail: cause.message, hasAnswered: false };
  }
}
