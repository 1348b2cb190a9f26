import type { ErrorCode } from "./error-code.ts";

/** An expected outcome as a value: exceptions are kept for bugs and for operational failure. */
export type Result<Value, Failure> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly error: Failure };

/** A refusal that can be told to a client: one of the fifteen codes, and one sentence of detail. */
export interface Refusal {
  readonly code: ErrorCode;
  /** A sentence for a person; never a secret, never part of the protocol's vocabulary. */
  readonly detail: string;
}

export function ok<Value>(value: Value): { readonly ok: true; readonly value: Value } {
  return { ok: true, value };
}

export function err<Failure>(error: Failure): { readonly ok: false; readonly error: Failure } {
  return { ok: false, error };
}

export function refuse(
  code: ErrorCode,
  detail: string,
): { readonly ok: false; readonly error: Refusal } {
  return { ok: false, error: { code, detail } };
}
