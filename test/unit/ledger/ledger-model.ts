/** The ledger's rules once more, as short as they can be said: what the real ones are compared with. */
import type { PaymentState } from "../../../src/ledger/ledger.ts";
import { CALLER } from "./ledger-driver.ts";

export type Operation =
  | ClaimOperation
  | BeginOperation
  | UndeliveredOperation
  | { readonly name: "settled"; readonly payment: number; readonly transaction: string }
  | { readonly name: PlainOperation; readonly payment: number }
  | { readonly name: "restart" };

interface ClaimOperation {
  readonly name: "claim";
  readonly payment: number;
  readonly genuine: boolean;
  readonly binding: string;
  readonly target: string;
}

interface BeginOperation {
  readonly name: "begin";
  readonly payment: number;
  readonly genuine: boolean;
  readonly price: string;
  readonly caller: string | undefined;
}

interface UndeliveredOperation {
  readonly name: "undelivered";
  readonly payment: number;
  readonly sent: boolean;
  readonly served: string | null;
}

export const PLAIN_OPERATIONS = [
  "handedOver",
  "signed",
  "failed",
  "released",
  "abandoned",
  "delivering",
  "delivered",
] as const;

type PlainOperation = (typeof PLAIN_OPERATIONS)[number];

/** The price of every claim. */
export const PRICE = "10000";

interface FirstUse {
  readonly genuine: boolean;
  readonly price: string;
  readonly binding: string | null;
  readonly caller: string | undefined;
}

interface Row extends FirstUse {
  state: PaymentState;
  served: string | null;
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
        return this.#claim(operation);
      case "begin":
        return this.#begin(operation);
      case "undelivered":
        return undelivered(this.#rows.get(operation.payment), operation);
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

  #claim(claim: ClaimOperation): string {
    const { payment, genuine, binding } = claim;
    const row = this.#rows.get(payment);
    if (row !== undefined) return claimed(row, claim);
    return this.#take(payment, { genuine, binding, price: PRICE, caller: CALLER });
  }

  #take(payment: number, first: FirstUse): string {
    const row = { bytes: false, served: null, transaction: null, attempts: 0 };
    this.#rows.set(payment, { state: "CLAIMED", ...first, ...row });
    return "granted";
  }

  #begin({ payment, genuine, price, caller }: BeginOperation): string {
    const row = this.#rows.get(payment);
    const first = { genuine, price, caller, binding: null };
    if (row === undefined) return this.#take(payment, first);
    if (row.state === "FAILED" && row.bytes) return row.genuine === genuine ? "failed" : "taken";
    if (caller === undefined || row.caller !== caller) {
      return row.state === "FAILED" ? this.#take(payment, first) : "taken";
    }
    return row.genuine === genuine && row.price === price ? resumed(row) : "taken";
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

function claimed(row: Row, { genuine, binding, target }: ClaimOperation): string {
  if (row.genuine !== genuine) return "forged";
  const open = row.state === "CLAIMED" || row.state === "SIGNED";
  if (row.binding !== binding) return open ? "busy" : "foreign";
  if (open) return "unresolved";
  if (row.state === "FAILED") return "failed";
  if (row.state === "DELIVERING") return "busy";
  const otherServed = row.served !== null && row.served !== target;
  return row.state === "DELIVERED" || row.attempts === 3 || otherServed ? "spent" : "settled";
}

function resumed(row: Row): string {
  if (row.state === "FAILED") return "failed";
  if (row.transaction !== null) return "settled";
  return row.bytes ? "resume" : "granted";
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
    default:
      return deliver(row);
  }
}

function undelivered(row: Row | undefined, { sent, served }: UndeliveredOperation): string {
  if (row?.state === "SETTLED" && (row.attempts > 0 || !sent)) return "ok";
  const result = move(row, ["DELIVERING"], "SETTLED");
  if (row !== undefined && result === "ok") {
    row.attempts -= sent ? 0 : 1;
    row.served ??= served;
  }
  return result;
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
