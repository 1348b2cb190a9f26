/** The ledger's rules once more, as short as they can be said: what the real ones are compared with. */
import type { PaymentState } from "../../../src/ledger/ledger.ts";
import { CALLER } from "./ledger-driver.ts";

export type Operation =
  | { readonly name: "claim"; readonly payment: number; readonly binding: string }
  | { readonly name: "begin"; readonly payment: number; readonly caller: string | undefined }
  | { readonly name: "settled"; readonly payment: number; readonly transaction: string }
  | { readonly name: PlainOperation; readonly payment: number }
  | { readonly name: "restart" };

export const PLAIN_OPERATIONS = [
  "handedOver",
  "signed",
  "failed",
  "released",
  "abandoned",
  "delivering",
  "delivered",
  "undelivered",
] as const;

type PlainOperation = (typeof PLAIN_OPERATIONS)[number];

interface Row {
  state: PaymentState;
  binding: string | null;
  caller: string | undefined;
  bytes: boolean;
  transaction: string | null;
  attempts: number;
}

export class LedgerModel {
  readonly #rows = new Map<number, Row>();
  nextNonce: number | undefined;

  /** Numbers of the payments that are signed with bytes. */
  get unfinished(): readonly number[] {
    return [...this.#rows].filter(([, row]) => row.state === "SIGNED" && row.bytes).map(([n]) => n);
  }

  /** The outcome's kind, `ok`, `true`, `false` or `conflict`. */
  apply(operation: Operation): string {
    switch (operation.name) {
      case "restart":
        return this.#restart();
      case "claim":
        return this.#claim(operation.payment, operation.binding);
      case "begin":
        return this.#begin(operation.payment, operation.caller);
      case "settled":
        return settled(this.#rows.get(operation.payment), operation.transaction);
      case "signed":
        return this.#signed(this.#rows.get(operation.payment));
      case "released":
      case "abandoned":
        return this.#drop(operation.name, operation.payment);
      default:
        return step(operation.name, this.#rows.get(operation.payment));
    }
  }

  #claim(payment: number, binding: string): string {
    const row = this.#rows.get(payment);
    return row === undefined ? this.#take(payment, binding, CALLER) : claimed(row, binding);
  }

  #take(payment: number, binding: string | null, caller: string | undefined): string {
    const row = { binding, caller, bytes: false, transaction: null, attempts: 0 };
    this.#rows.set(payment, { state: "CLAIMED", ...row });
    return "granted";
  }

  #begin(payment: number, caller: string | undefined): string {
    const row = this.#rows.get(payment);
    if (row === undefined) return this.#take(payment, null, caller);
    if (caller === undefined || row.caller !== caller) {
      return row.state === "FAILED" ? this.#take(payment, null, caller) : "taken";
    }
    if (row.state === "FAILED") return "failed";
    if (row.transaction !== null) return "settled";
    return row.bytes ? "resume" : "granted";
  }

  #signed(row: Row | undefined): string {
    if (row === undefined || row.bytes) return "conflict";
    const result = move(row, ["CLAIMED", "SIGNED"], "SIGNED");
    if (result === "ok") {
      row.bytes = true;
      this.nextNonce = (this.nextNonce ?? 0) + 1;
    }
    return result;
  }

  #drop(name: "released" | "abandoned", payment: number): string {
    const row = this.#rows.get(payment);
    if (row === undefined) return "ok";
    const begun = row.binding === null;
    if (name === "abandoned" && !begun) return "ok";
    if (name === "released" && begun) return "conflict";
    const handedOver = row.state === "SIGNED" && !row.bytes;
    if (row.state !== "CLAIMED" && (begun || !handedOver)) return "conflict";
    this.#rows.delete(payment);
    return "ok";
  }

  #restart(): string {
    for (const [payment, row] of this.#rows) {
      if (row.state === "CLAIMED") this.#rows.delete(payment);
      if (row.state === "DELIVERING") row.state = "SETTLED";
    }
    return "ok";
  }
}

function claimed(row: Row, binding: string): string {
  if (row.binding !== binding) return "foreign";
  if (row.state === "FAILED") return "failed";
  if (row.state === "SIGNED") return "unresolved";
  if (row.state === "CLAIMED" || row.state === "DELIVERING") return "busy";
  return row.state === "SETTLED" && row.attempts < 3 ? "settled" : "spent";
}

function settled(row: Row | undefined, transaction: string): string {
  if (row !== undefined && row.transaction === transaction) return "ok";
  const result = move(row, ["CLAIMED", "SIGNED"], "SETTLED");
  if (row !== undefined && result === "ok") row.transaction = transaction;
  return result;
}

type Step = Exclude<PlainOperation, "signed" | "released" | "abandoned">;

function step(name: Step, row: Row | undefined): string {
  switch (name) {
    case "handedOver":
      if (row?.state === "SIGNED" && !row.bytes) return "ok";
      return move(row, ["CLAIMED"], "SIGNED");
    case "failed":
      return move(row, ["CLAIMED", "SIGNED", "FAILED"], "FAILED");
    case "delivered":
      return move(row, ["DELIVERING", "DELIVERED"], "DELIVERED");
    case "undelivered":
      if (row?.state === "SETTLED" && row.attempts > 0) return "ok";
      return move(row, ["DELIVERING"], "SETTLED");
    default:
      return deliver(row);
  }
}

function deliver(row: Row | undefined): string {
  if (row?.state !== "SETTLED" || row.attempts === 3) return "false";
  row.state = "DELIVERING";
  row.attempts += 1;
  return "true";
}

function move(row: Row | undefined, from: readonly PaymentState[], to: PaymentState): string {
  if (row === undefined || !from.includes(row.state)) return "conflict";
  row.state = to;
  return "ok";
}
