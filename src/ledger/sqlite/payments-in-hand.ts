/**
 * The newest payments as values, for a ledger that nobody else writes: what was just written is not read
 * again, and a step that a crash may undo is written together with the next one of its payment. What is not
 * stored yet is given to {@link SqliteRows} by {@link PaymentsInHand.store} within its caller's transaction;
 * where that is taken back, so is what was done here since its mark.
 */
import type { Timers } from "../../time/time.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";
import type { FacilitatorRequest, PaymentPayload } from "../../x402/x402.ts";
import type { StoredResponse } from "../ledger.ts";
import type { Moment, Step } from "../machine.ts";
import { eventOf } from "../outbox-event.ts";
import { identityOf, requestOf, type PaymentRow } from "../payment-row.ts";
import { isAnotherUse, type OwedQuestion, type SqliteRows, type Written } from "./sqlite-rows.ts";

/** Payments that are remembered as they are stored. */
const MAX_REMEMBERED = 1024;

/** A payment that is further than its stored row. */
interface Unstored extends Written {
  /** Undefined: not in the database at all. */
  readonly stored: PaymentRow | undefined;
  /** When the oldest of what is not stored was done, milliseconds of {@link Timers.elapsed}. */
  readonly sinceMs: number;
}

/** How a payment was before, for taking back. */
interface Former {
  readonly key: string;
  readonly unstored: Unstored | undefined;
  readonly remembered: PaymentRow | undefined;
}

/** What a step of the machine makes of a row. */
export interface Change {
  readonly key: string;
  readonly before: PaymentRow | undefined;
  readonly step: Step<unknown>;
  readonly moment: Moment;
}

export class PaymentsInHand {
  readonly #rows: SqliteRows;
  readonly #unstored = new Map<string, Unstored>();
  /** Those of them that the database does not know: few, since a hand-over stores them. */
  readonly #onlyHere = new Map<string, Unstored>();
  readonly #remembered = new Map<string, PaymentRow>();
  /** Those of the unstored that somebody has just left. */
  readonly #left = new Set<string>();
  readonly #timers: Timers;
  #former: Former[] = [];

  constructor(rows: SqliteRows, timers: Timers) {
    this.#rows = rows;
    this.#timers = timers;
  }

  /** How many are further than their rows. */
  get unstored(): number {
    return this.#unstored.size;
  }

  read(key: string): PaymentRow | undefined {
    return this.#unstored.get(key)?.row ?? this.#remembered.get(key) ?? this.#rows.read(key);
  }

  /** The requests of all payments with that payer and authorization nonce on that network. */
  recall(payment: PaymentPayload): readonly FacilitatorRequest[] {
    const identity = identityOf(payment);
    if (identity === null) return [];
    const recalled = this.#rows.recall(identity);
    for (const each of this.#onlyHere.values()) {
      if (each.identity === identity) recalled.push(requestOf(each.row));
    }
    return recalled;
  }

  /** The payment that has that identifier. */
  named(identifier: string): PaymentRow | undefined {
    for (const { row } of this.#onlyHere.values()) if (row.identifier === identifier) return row;
    const key = this.#rows.named(identifier);
    return key === undefined ? undefined : this.read(key);
  }

  /** Keys of payments that may be owed for that sale, those that were just left last. */
  owed(asked: OwedQuestion): readonly string[] {
    return [...new Set([...this.#rows.owed(asked), ...this.#left])];
  }

  /** The answer that is kept with a payment. */
  answer(key: string): StoredResponse | undefined {
    return this.#unstored.get(key)?.answer?.response ?? this.#rows.answer(key);
  }

  /** Whether a deletion would leave nothing to be done in the database. */
  isOnlyHere(key: string): boolean {
    return this.#onlyHere.has(key);
  }

  /** Nothing where nothing changes. A row that is stored is deleted at once, within a transaction. */
  apply({ key, before, step, moment }: Change): void {
    const { next, note = "", answer } = step;
    if (next === undefined) return;
    this.#noteFormer(key);
    const known = this.#unstored.get(key);
    this.#put(key, undefined);
    this.#remembered.delete(key);
    if (next === null) {
      if (known === undefined || known.stored !== undefined) this.#rows.delete(key);
      return;
    }
    this.#put(key, {
      ...facts(known, { key, before, step, moment }, next, this.#timers),
      row: next,
      history: `${known?.history ?? ""}${historyLine(next, note, moment)}`,
      updatedMs: moment.nowMs,
      answer: answer ?? known?.answer,
      events: [...(known?.events ?? []), ...eventsOf({ key, before, step, moment }, next)],
    });
  }

  /** Writes a payment as it is now. */
  store(key: string): void {
    const known = this.#unstored.get(key);
    if (known === undefined) return;
    this.#rows.write(key, known.stored, known);
    this.#noteFormer(key);
    this.#put(key, undefined);
    if (this.#remembered.size >= MAX_REMEMBERED) {
      const [oldest] = this.#remembered.keys();
      if (oldest !== undefined) this.#remembered.delete(oldest);
    }
    this.#remembered.set(key, known.row);
  }

  /** Those that have waited since then, {@link Timers.elapsed}, or all. */
  waiting(sinceMs = Infinity): readonly string[] {
    return [...this.#unstored].filter(([, each]) => each.sinceMs <= sinceMs).map(([key]) => key);
  }

  /** Those of that submission. */
  waitingOf(submission: string): readonly string[] {
    const ofIt = [...this.#unstored].filter(([, { row }]) => row.submission === submission);
    return ofIt.map(([key]) => key);
  }

  /** A place to go back to until {@link committed}. */
  mark(): number {
    return this.#former.length;
  }

  takeBack(mark: number): void {
    for (const { key, unstored, remembered } of this.#former.splice(mark).toReversed()) {
      this.#put(key, unstored);
      if (remembered === undefined) this.#remembered.delete(key);
      else this.#remembered.set(key, remembered);
    }
  }

  /** What was done is not taken back any more. */
  committed(): void {
    this.#former = [];
  }

  #put(key: string, unstored: Unstored | undefined): void {
    if (unstored === undefined) this.#unstored.delete(key);
    else this.#unstored.set(key, unstored);
    if (unstored?.row.isLeft === true) this.#left.add(key);
    else this.#left.delete(key);
    if (unstored === undefined || unstored.stored !== undefined) this.#onlyHere.delete(key);
    else this.#onlyHere.set(key, unstored);
  }

  #noteFormer(key: string): void {
    const unstored = this.#unstored.get(key);
    this.#former.push({ key, unstored, remembered: this.#remembered.get(key) });
  }
}

/** What the first of the steps that are not stored, or a payment's first use, has fixed. */
function facts(
  known: Unstored | undefined,
  { before, moment }: Change,
  next: PaymentRow,
  timers: Timers,
): Pick<Unstored, "stored" | "sinceMs" | "createdMs" | "identity"> {
  const { stored, sinceMs, ...first } = known ?? {
    stored: before,
    sinceMs: timers.elapsed(),
    createdMs: undefined,
    identity: null,
  };
  if (before !== undefined && !isAnotherUse(before, next)) {
    return { stored, sinceMs, createdMs: first.createdMs, identity: first.identity };
  }
  const identity = identityOf(requestOf(next).paymentPayload);
  return { stored, sinceMs, createdMs: moment.nowMs, identity };
}

function historyLine({ state }: PaymentRow, note: string, { nowMs, life }: Moment): string {
  return `${JSON.stringify([nowMs, state, note, life])}\n`;
}

function eventsOf({ key, before, moment }: Change, next: PaymentRow): Written["events"] {
  // The column holds nothing but keys.
  const event = eventOf(key as PaymentKey, before, next);
  return event === undefined ? [] : [{ event, atMs: moment.nowMs }];
}
