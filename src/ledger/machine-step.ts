/** What the transitions of `machine.ts` are made of. */
import { LedgerConflict } from "./ledger-fault.ts";
import type { PaymentRow } from "./payment-row.ts";
import type { Pour } from "./pots.ts";
import type { StoredResponse } from "./sold-answer.ts";

/** Who acts, and when. */
export interface Moment {
  /** Unique to one life of a process, or of a worker within one. */
  readonly life: string;
  readonly nowMs: number;
}

/** `next`: the row to write, null to delete it, absent where nothing changes. */
export interface Step<Outcome> {
  readonly outcome: Outcome;
  readonly next?: PaymentRow | null;
  /** For the payment's history, where something changes. */
  readonly note?: string;
  /** To be kept beside the row. */
  readonly answer?: KeptResponse | undefined;
  /** Of the pot that the payment has filled: what is taken out of it, or put back, in the same transaction. */
  readonly pours?: Pour | undefined;
}

export interface KeptResponse {
  readonly response: StoredResponse;
  /** Milliseconds since the epoch. */
  readonly untilMs: number;
}

export type Row = PaymentRow | undefined;

export const DONE: Step<void> = { outcome: undefined };

export function after(row: PaymentRow): PaymentRow {
  return { ...row, version: row.version + 1 };
}

export function conflict(row: Row, to: string): LedgerConflict {
  return new LedgerConflict(`a payment cannot go from ${row?.state ?? "(none)"} to ${to}`);
}
