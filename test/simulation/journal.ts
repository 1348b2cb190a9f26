/**
 * What a world saw, and the promises that can be judged at once. The rest is judged by the audit when
 * everything has come to rest.
 */
import { MAX_DELIVERY_ATTEMPTS, type Lease } from "../../src/ledger/ledger.ts";
import type { PaymentRow } from "../../src/ledger/payment-row.ts";
import type { PaymentKey } from "../../src/x402/payment-key.ts";
import { accountOf, type MemoryStore } from "../support/memory-store.ts";
import type { SimulatedPayment } from "./payments.ts";
import type { Life, VirtualTime } from "./virtual-time.ts";

export interface Violation {
  /** `I1` to `I9`, and those of the simulation itself. */
  readonly invariant: string;
  readonly detail: string;
}

export interface Refused {
  readonly payment: SimulatedPayment;
  readonly path: string;
  readonly target: string;
  readonly code: string;
  /** Which of the rows under this key it asked about first. */
  readonly incarnation: number;
}

/** A 402 that says of a payment that it was not charged. */
export interface Unpaid extends Refused {
  readonly atMs: number;
  /** The row that it was said of, if there was one. */
  readonly row: PaymentRow | undefined;
  /** Which of the rows under this key it was. */
  readonly atIncarnation: number;
}

export interface Given {
  readonly target: string;
  readonly life: Life;
  /** Whether the ledger knows. */
  isRecorded: boolean;
}

export class Journal {
  readonly violations: Violation[] = [];
  readonly unpaid: Unpaid[] = [];
  readonly payments = new Map<PaymentKey, SimulatedPayment>();
  /** Good answers that went out to buyers, by payment, in order. */
  readonly deliveries = new Map<PaymentKey, Given[]>();
  readonly executions = new Map<PaymentKey, number>();
  readonly #deletions = new Map<PaymentKey, number>();
  /** Lives that were ever taken for dead. */
  readonly #presumed = new Set<string>();
  readonly #store: MemoryStore;
  readonly #time: VirtualTime;
  readonly #trace: (line: string) => void;

  constructor(store: MemoryStore, time: VirtualTime, trace: (line: string) => void) {
    this.#store = store;
    this.#time = time;
    this.#trace = trace;
    const { payments, undead } = store;
    const add = undead.add.bind(undead);
    undead.add = (life) => {
      this.#presumed.add(life);
      return add(life);
    };
    const remove = payments.delete.bind(payments);
    payments.delete = (key) => {
      this.#deletions.set(key, this.incarnation(key) + 1);
      return remove(key);
    };
  }

  violated(invariant: string, detail: string): void {
    this.violations.push({ invariant, detail });
    this.#trace(`VIOLATION ${invariant}: ${detail}`);
  }

  signed(payment: SimulatedPayment): void {
    this.payments.set(payment.key, payment);
  }

  /** Not a forgery that has a payment's name. */
  isGenuine(payment: SimulatedPayment): boolean {
    return this.payments.get(payment.key) === payment;
  }

  /** How many rows under this key were dropped before the one that there is, or will be. */
  incarnation(key: PaymentKey): number {
    return this.#deletions.get(key) ?? 0;
  }

  executed({ key }: SimulatedPayment, target: string, life: Life): void {
    const count = (this.executions.get(key) ?? 0) + 1;
    this.executions.set(key, count);
    this.#trace(`upstream: ${nameOf(key)} for ${target}, execution ${count}`);
    const row = this.#store.payments.get(key)?.row;
    const { state = "(none)", binding, settledTransaction = null } = row ?? {};
    // What a dead life sent arrives late; by then others may have gone on.
    const isDelivering = state === "DELIVERING" || this.#isOver(life);
    if (settledTransaction === null || !isDelivering) {
      this.violated("I1", `upstream asked while ${nameOf(key)} is ${state}`);
    }
    if (binding !== `GET ${target.split("?", 1)[0]}`) {
      this.violated("I2", `${nameOf(key)} is for ${binding}, and bought ${target}`);
    }
    if (count > MAX_DELIVERY_ATTEMPTS) {
      this.violated("I2", `${nameOf(key)} was executed ${count} times`);
    }
  }

  /** A good answer went out to a buyer who got all of it, or left in its middle. */
  delivered({ key }: SimulatedPayment, target: string, life: Life): Given {
    this.#trace(`buyer: has the answer for ${nameOf(key)}, ${target}`);
    const before = this.deliveries.get(key) ?? [];
    const other = before.find((each) => each.target !== target);
    // Where the life died before it could record an answer, nobody knows that it went out; and what a life
    // that was taken for dead has asked of the backend still arrives, beside what its successor sells.
    const isSuccessors = other?.isRecorded === true || (other && !this.#isOver(other.life));
    if (other !== undefined && isSuccessors && !this.#isOver(life)) {
      this.violated("I2", `${nameOf(key)} bought ${other.target} and ${target}`);
    }
    const given = { target, life, isRecorded: false };
    this.deliveries.set(key, [...before, given]);
    return given;
  }

  /** The life has said what became of a delivery: whether the ledger took it. */
  recorded({ key }: SimulatedPayment, given: Given): void {
    const row = this.#store.payments.get(key)?.row;
    given.isRecorded = row?.state === "DELIVERED" || row?.servedTarget === given.target;
  }

  /** Only who holds the account's lease signs with it. */
  wasSignedBy(life: Life, { network, address }: Lease): void {
    const held = this.#store.leases.get(accountOf(network, address));
    if (held?.holder === life.id) return;
    this.violated("I5", `${life.id} signed with an account that belongs to ${held?.holder}`);
  }

  replayed({ key }: SimulatedPayment, target: string): void {
    this.#trace(`buyer: has the kept answer for ${nameOf(key)}, ${target}`);
    if (this.#store.payments.get(key)?.row.servedTarget !== target) {
      this.violated("I2", `the kept answer of ${nameOf(key)} was given for ${target}`);
    }
  }

  /** What such a life begins may be unknown to the others, and taken up by them. */
  #isOver(life: Life): boolean {
    return !life.isAlive || this.#presumed.has(life.id);
  }

  refused(refusal: Refused): void {
    const { payment, path, target, code } = refusal;
    const { key } = payment;
    const row = this.#store.payments.get(key)?.row;
    this.#trace(`buyer: 402 ${code} for ${nameOf(key)}, ${row?.state ?? "(none)"}`);
    if (row === undefined || row.settledTransaction === null) {
      const atIncarnation = this.incarnation(key);
      this.unpaid.push({ ...refusal, atMs: this.#time.nowMs, row, atIncarnation });
      return;
    }
    const isDeliverable =
      row.state === "SETTLED" &&
      row.attempts < MAX_DELIVERY_ATTEMPTS &&
      row.binding === `GET ${path}` &&
      (row.servedTarget === null || row.servedTarget === target);
    if (isDeliverable) {
      this.violated("I7", `402 ${code} for ${nameOf(key)}, which is paid and can be delivered`);
    }
  }
}

export function nameOf(key: PaymentKey): string {
  return `payment ${Number.parseInt(key.slice(-8), 16)}`;
}
