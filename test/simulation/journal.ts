/**
 * What a world saw, and the promises that can be judged at once. The rest is judged by the audit when
 * everything has come to rest.
 */
import { hash } from "node:crypto";
import {
  MAX_DELIVERY_ATTEMPTS,
  MAX_REPLAYS,
  type Lease,
  type SettledPayment,
} from "../../src/ledger/ledger.ts";
import { processOf } from "../../src/ledger/life.ts";
import type { PaymentEvent } from "../../src/ledger/books.ts";
import type { PaymentRow } from "../../src/ledger/payment-row.ts";
import { digestedTarget } from "../../src/ledger/stored-target.ts";
import type { PaymentKey } from "../../src/x402/payment-key.ts";
import { accountOf, type MemoryStore } from "../support/memory-store.ts";
import type { Authorization } from "./chain.ts";
import type { SimulatedPayment } from "./payments.ts";
import { ShownRequest, type Wait } from "./shown-request.ts";
import type { Life, VirtualTime } from "./virtual-time.ts";

/** Said of payments that are over, whoever signed them. */
const PROOFLESS: ReadonlySet<string> = new Set([
  "invalid_transaction_state",
  "invalid_exact_evm_payload_authorization_valid_before",
]);

/** How long what a crash may undo waits to be stored, and the next COMMIT, milliseconds. */
const UNSTORED_MS = 250 + 20;

/** What the history says of steps that no crash may undo. */
const DURABLE = /^attempt \d|^signed in /;

/** What it says of what does not count as an attempt; there are limits of their own to them. */
const UNCOUNTED = /^led on to |^fetched again/;

/** What the history says of an attempt that was cut so. */
const CUT = "died with the process";

export interface Violation {
  /** `I1` to `I9` of the money, `T1` to `T6` of thieves and payers, `S1` of the store, and those of the simulation. */
  readonly invariant: string;
  readonly detail: string;
}

export interface Refused {
  readonly payment: SimulatedPayment;
  readonly path: string;
  readonly target: string;
  readonly code: string;
  readonly isThief: boolean;
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

export interface Told extends Refused {
  readonly atMs: number;
}

/** What one buyer wants once, however often it is asked and signed for. */
export interface Purchase {
  readonly payer: number;
  readonly payments: SimulatedPayment[];
  readonly targets: Set<string>;
  /** The buyer has had something for the money. */
  isServed: boolean;
}

/** When a payment was with us, as its buyer knows it. */
interface OperatorPages {
  readonly firstMs: number;
  readonly requests: number;
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
  /** Payers of new payments who were told to pay. */
  readonly told: Told[] = [];
  readonly payments = new Map<PaymentKey, SimulatedPayment>();
  readonly purchases: Purchase[] = [];
  /** Good answers that went out to buyers, by payment, in order. */
  readonly deliveries = new Map<PaymentKey, Given[]>();
  readonly executions = new Map<PaymentKey, number>();
  /** Payments whose buyer has all of an answer, and since when. */
  readonly #had = new Map<PaymentKey, number>();
  /** For which the upstream has made something before they were settled. */
  readonly #worked = new Map<PaymentKey, readonly string[]>();
  readonly #stolen = new Set<PaymentKey>();
  readonly #showings = new Map<PaymentKey, OperatorPages>();
  readonly #waits: Wait[] = [];
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
    const set = payments.set.bind(payments);
    payments.set = (key, kept) => {
      this.#judgeHands(key, payments.get(key)?.row, kept.row);
      return set(key, kept);
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

  authorizedBy({ id }: Authorization): SimulatedPayment | undefined {
    return [...this.payments.values()].find(({ authorization }) => authorization.id === id);
  }

  /** A buyer's request with a payment begins. */
  shown({ key }: SimulatedPayment): ShownRequest {
    const { firstMs, requests } = this.#showings.get(key) ?? {
      firstMs: this.#time.nowMs,
      requests: 0,
    };
    this.#showings.set(key, { firstMs, requests: requests + 1 });
    return new ShownRequest(key, this.#time, this.#waits);
  }

  /** What the ledger said of payments, and a death has undone. */
  readonly lost = new Map<PaymentKey, readonly PaymentEvent[]>();
  /** When buyers' requests waited for a payment, whichever they showed. */
  waitsFor({ key }: SimulatedPayment): readonly Wait[] {
    return this.#waits.filter((each) => each.key === key);
  }

  /** The payment that is delivered under that key, as the upstream is shown it. */
  soldUnder(idempotencyKey: string): SimulatedPayment {
    const payment = this.claimedUnder(idempotencyKey);
    if (payment === undefined) throw new Error("what is delivered was never paid for");
    return payment;
  }

  /** The same of one that may not be paid yet, or not be there any more. */
  claimedUnder(idempotencyKey: string): SimulatedPayment | undefined {
    for (const [key, { row }] of this.#store.payments) {
      const payment = this.payments.get(key);
      if (payment !== undefined && isShownAs(row, idempotencyKey)) return payment;
    }
    return undefined;
  }

  /** The payment whose kept answer is given to whoever shows this one. */
  keptFor(
    shown: SimulatedPayment,
    { transaction }: SettledPayment,
    target: string,
  ): SimulatedPayment {
    const of = ({ key }: SimulatedPayment): boolean => {
      const row = this.#store.payments.get(key)?.row;
      return row?.settledTransaction === transaction && isServedAs(row, target);
    };
    const { from } = shown.authorization;
    const others = [...this.payments.values()].filter((each) => each.authorization.from === from);
    const changedMs = ({ key }: SimulatedPayment): number =>
      this.#store.payments.get(key)?.updatedMs ?? 0;
    const [last] = others.filter(of).toSorted((one, other) => changedMs(other) - changedMs(one));
    return of(shown) || last === undefined ? shown : last;
  }

  showing({ key }: SimulatedPayment): OperatorPages | undefined {
    return this.#showings.get(key);
  }

  had({ key }: SimulatedPayment): void {
    if (!this.#had.has(key)) this.#had.set(key, this.#time.nowMs);
  }

  hadMs({ key }: SimulatedPayment): number | undefined {
    return this.#had.get(key);
  }

  isHad(key: PaymentKey): boolean {
    return this.#had.has(key) || this.isGivenUp(key);
  }

  /** Delivered, and its answer given again as often, or as long, as it is: the buyer was not there. */
  isGivenUp(key: PaymentKey): boolean {
    const row = this.#store.payments.get(key)?.row;
    if (row?.state !== "DELIVERED" || this.#had.has(key)) return false;
    const { replays, replayUntilMs } = row;
    return replays >= MAX_REPLAYS || (replayUntilMs ?? 0) <= this.#time.nowMs;
  }

  /** A thief is given what a payment has bought. */
  stolen({ key }: SimulatedPayment, target: string): void {
    this.#stolen.add(key);
    this.violated("T2", `a thief gets ${target} for ${nameOf(key)}`);
  }

  /** Not a forgery that has a payment's name. */
  isGenuine(payment: SimulatedPayment): boolean {
    return this.payments.get(payment.key) === payment;
  }

  /** How many rows under this key were dropped before the one that there is, or will be. */
  incarnation(key: PaymentKey): number {
    return this.#deletions.get(key) ?? 0;
  }

  executed(
    { key }: SimulatedPayment,
    target: string,
    life: Life,
    { isRepeat, repeats }: { readonly isRepeat: boolean; readonly repeats: number },
  ): void {
    const count = (this.executions.get(key) ?? 0) + 1;
    this.executions.set(key, count);
    this.#trace(`upstream: ${nameOf(key)} for ${target}, execution ${count}`);
    const row = this.#store.payments.get(key)?.row;
    const { state = "(none)", binding, settledTransaction = null } = row ?? {};
    // What a dead life sent arrives late; by then others may have gone on.
    const isSold = isRepeat && state === "DELIVERED";
    const isDelivering = state === "DELIVERING" || isSold || this.#isOver(life);
    if (isSold && (row?.repeats ?? 0) > repeats) {
      this.violated("I2", `${nameOf(key)} was fetched again ${row?.repeats} times`);
    }
    if (isSold && !isServedAs(row, target))
      this.violated("I2", `${nameOf(key)} was sold for another target`);
    if (settledTransaction === null || !isDelivering) {
      this.violated("I1", `upstream asked while ${nameOf(key)} is ${state}`);
    }
    if (binding !== `GET ${target.split("?", 1)[0]}` && row?.ledTo !== `GET ${target}`) {
      this.violated("I2", `${nameOf(key)} is for ${binding}, and bought ${target}`);
    }
    if (count > this.#mostExecutions(key, repeats)) {
      this.violated("I2", `${nameOf(key)} was executed ${count} times`);
    }
  }

  /** The upstream works for a claim that is not settled; what a dead life sent arrives late. */
  worked({ key }: SimulatedPayment, target: string, idempotencyKey: string, life: Life): void {
    this.#trace(`upstream: works for ${nameOf(key)}, ${target}`);
    const row = this.#store.payments.get(key)?.row;
    // Its buyer may have left, and others go on with it.
    if (row === undefined || !isShownAs(row, idempotencyKey) || this.#isOver(life)) return;
    if (row.state !== "CLAIMED") {
      this.violated("A2", `upstream works for ${nameOf(key)}, which is ${row.state}`);
    }
    if (row.binding !== `GET ${target.split("?", 1)[0]}`) {
      this.violated("I2", `${nameOf(key)} is for ${row.binding}, and works for ${target}`);
    }
  }

  /** It has made something that may be sold. */
  made({ key }: SimulatedPayment, target: string): void {
    this.#worked.set(key, [...(this.#worked.get(key) ?? []), target]);
  }

  /** Targets for which something was made before it was settled. */
  madeFor({ key }: SimulatedPayment): readonly string[] {
    return this.#worked.get(key) ?? [];
  }

  /** A good answer went out to a buyer who got all of it, or left in its middle. */
  delivered({ key }: SimulatedPayment, target: string, life: Life): Given {
    this.#trace(`buyer: has the answer for ${nameOf(key)}, ${target}`);
    const row = this.#store.payments.get(key)?.row;
    if ((row?.settledTransaction ?? null) === null && !this.#isOver(life)) {
      this.violated("A1", `${nameOf(key)} is delivered, and ${row?.state}`);
    }
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
    given.isRecorded = row?.state === "DELIVERED" || isServedAs(row, given.target);
  }

  /** A death has undone the last steps of a payment: what was recorded then may not be any more (decision record 30). */
  undone(key: PaymentKey, lost: readonly PaymentEvent[], diedMs: number): void {
    this.lost.set(key, [...(this.lost.get(key) ?? []), ...lost]);
    const beforeMs = diedMs - (lost[0]?.atMs ?? 0);
    this.#trace(`ledger: the last ${beforeMs} ms of ${nameOf(key)} are lost`);
    if (lost.some(({ note }) => DURABLE.test(note))) {
      this.violated("S1", `${nameOf(key)} has lost what is stored before anybody is answered`);
    }
    if (beforeMs > UNSTORED_MS) {
      this.violated("S1", `${nameOf(key)} was answered for and not stored for ${beforeMs} ms`);
    }
    const row = this.#store.payments.get(key)?.row;
    for (const given of this.deliveries.get(key) ?? []) {
      given.isRecorded &&= row?.state === "DELIVERED" || isServedAs(row, given.target);
    }
  }

  /** Only who holds the account's lease signs with it. */
  wasSignedBy(life: Life, { network, address }: Lease): void {
    const held = this.#store.leases.get(accountOf(network, address));
    if (held?.holder === life.id) return;
    this.violated("I5", `${life.id} signed with an account that belongs to ${held?.holder}`);
  }

  replayed({ key }: SimulatedPayment, target: string): void {
    this.#trace(`buyer: has the kept answer for ${nameOf(key)}, ${target}`);
    if (!isServedAs(this.#store.payments.get(key)?.row, target)) {
      this.violated("I2", `the kept answer of ${nameOf(key)} was given for ${target}`);
    }
  }

  /** What a request waits for stays in its hands until it has left, or its life is over. */
  #judgeHands(key: PaymentKey, before: PaymentRow | undefined, after: PaymentRow): void {
    const { holder = null, isLeft = true, state } = before ?? {};
    if (holder === null || isLeft || state === "DELIVERED" || state === "FAILED") return;
    const isOver = this.#store.dead.has(processOf(holder)) || this.#store.dead.has(holder);
    if (holder === after.holder || isOver) return;
    this.violated("T5", `${nameOf(key)} is taken from ${holder} by ${after.holder}`);
  }

  /** As often as its attempts were given again, and beside those that a death of ours has cut. */
  #mostExecutions(key: PaymentKey, repeats: number): number {
    const { row, events = [] } = this.#store.payments.get(key) ?? {};
    const cuts = events.filter(({ note }) => note.includes(CUT)).length;
    const uncounted = events.filter(({ note }) => UNCOUNTED.test(note)).length + repeats;
    return MAX_DELIVERY_ATTEMPTS * (1 + (row?.renewals ?? 0)) + cuts + uncounted;
  }

  /** What such a life begins may be unknown to the others, and taken up by them. */
  #isOver(life: Life): boolean {
    return !life.isAlive || this.#presumed.has(life.id);
  }

  refused(refusal: Refused): void {
    const { payment, code } = refusal;
    const { key } = payment;
    const row = this.#store.payments.get(key)?.row;
    this.#trace(`buyer: 402 ${code} for ${nameOf(key)}, ${row?.state ?? "(none)"}`);
    const isNew = this.#showings.get(key)?.requests === 1 && !PROOFLESS.has(code);
    if (isNew && row === undefined && !refusal.isThief)
      this.told.push({ ...refusal, atMs: this.#time.nowMs });
    if (row === undefined || row.settledTransaction === null) {
      const atIncarnation = this.incarnation(key);
      this.unpaid.push({ ...refusal, atMs: this.#time.nowMs, row, atIncarnation });
      return;
    }
    this.#judgePaid(refusal, row);
  }

  /** A 402 for a payment that is paid. */
  #judgePaid({ payment: { key }, path, target, code, isThief }: Refused, row: PaymentRow): void {
    const isIts = row.binding === `GET ${path}` || row.ledTo === `GET ${target}`;
    const isWanted = isIts && isGoodFor(row, target);
    if (isWanted && row.state === "SETTLED" && row.attempts < MAX_DELIVERY_ATTEMPTS) {
      this.violated("I7", `402 ${code} for ${nameOf(key)}, which is paid and can be delivered`);
    }
    const isRobbed = this.#stolen.has(key) || (isWanted && !this.isHad(key));
    if (isRobbed && !isThief) {
      this.violated("T1", `402 ${code} for ${nameOf(key)}, whose buyer has paid and has nothing`);
    }
  }
}

export function isGoodFor({ servedTarget }: PaymentRow, target: string): boolean {
  return servedTarget === null || servedTarget === target;
}

export function nameOf(key: PaymentKey): string {
  return `payment ${Number.parseInt(key.slice(-8), 16)}`;
}

/** Whether that is what it was served for; of a query the ledger keeps a digest. */
function isServedAs(row: Pick<PaymentRow, "servedTarget"> | undefined, target: string): boolean {
  return row?.servedTarget === digestedTarget(target);
}

function isShownAs(row: PaymentRow, idempotencyKey: string): boolean {
  return hash("sha256", `coinslot upstream ${row.idempotencyKey}`) === idempotencyKey;
}
