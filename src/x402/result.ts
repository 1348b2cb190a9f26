import type { ErrorCode } from "./error-code.ts";

/** An expected outcome as a value: exceptions are kept for bugs and for operational failure. */
export type Result<Value, Failure> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly error: Failure };

/** A refusal that can be told to a client: one of the fifteen codes, and one sentence of detail. */
export interface Refusal {
  readonly code: ErrorCode;
  /** The code of version 2, where that has one of its own for it. */
  readonly codeV2?: string;
  /** A sentence for a person; never a secret, never part of the protocol's vocabulary. */
  readonly detail: string;
}

/**
 * How the detail of a refusal ends where the payment is used already, by whatever transaction: its payer may have
 * paid for something. It crosses to other gateways, whose protocol has no member for it.
 */
const ASK_THE_SELLER = "if you were charged for this, ask the seller";

/** A detail with those words at its end. */
export function askingTheSeller(detail: string): string {
  return saysUsed(detail) ? detail : `${detail}; ${ASK_THE_SELLER}`;
}

/** Whether a refusal says that the payment is used already. */
export function saysUsed(detail: string): boolean {
  return detail.endsWith(ASK_THE_SELLER);
}

export function ok<Value>(value: Value): { readonly ok: true; readonly value: Value } {
  return { ok: true, value };
}

export function err<Failure>(error: Failure): { readonly ok: false; readonly error: Failure } {
  return { ok: false, error };
}

export function isOk({ ok: isGood }: Result<unknown, unknown>): boolean {
  return isGood;
}

export function refuse(
  code: ErrorCode,
  detail: string,
  codeV2?: string,
): { readonly ok: false; readonly error: Refusal } {
  return { ok: false, error: { code, detail, ...(codeV2 !== undefined && { codeV2 }) } };
}

/** What an exception says; whatever else was thrown, as a text. */
export function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
